# Cortex-M4 with an FPU: Arm MPS2, image AN386
TARGET = mcu:cortex-m4
PREFIX = arm-none-eabi-
CORE = -mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard
START = cortex_m.c
SCRIPT = mps2.ld
QEMU = qemu-system-arm -M mps2-an386
