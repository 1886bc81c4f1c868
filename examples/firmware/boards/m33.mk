# Cortex-M33 with DSP extension and FPU: Arm MPS2, image AN505
TARGET = mcu:cortex-m33
PREFIX = arm-none-eabi-
CORE = -mcpu=cortex-m33 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard
START = cortex_m.c
SCRIPT = an505.ld
QEMU = qemu-system-arm -M mps2-an505
