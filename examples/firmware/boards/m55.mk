# Cortex-M55 with vector unit and FPU: Arm MPS3, image AN547
TARGET = mcu:cortex-m55
PREFIX = arm-none-eabi-
CORE = -mcpu=cortex-m55 -mthumb -mfloat-abi=hard
START = cortex_m.c
SCRIPT = an547.ld
QEMU = qemu-system-arm -M mps3-an547
