# RISC-V without an FPU: QEMU's machine virt
TARGET = mcu:generic
PREFIX = riscv64-unknown-elf-
CORE = -march=rv32imac -mabi=ilp32 --specs=picolibc.specs
START = rv32.S
SCRIPT = virt.ld
QEMU = qemu-system-riscv32 -M virt -bios none
