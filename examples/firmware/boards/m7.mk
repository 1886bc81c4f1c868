# Cortex-M7 with an FPU: Arm MPS2, image AN500
TARGET = mcu:cortex-m7
PREFIX = arm-none-eabi-
CORE = -mcpu=cortex-m7 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard
START = cortex_m.c
SCRIPT = mps2.ld
QEMU = qemu-system-arm -M mps2-an500
