/* Start-up of a RISC-V core in machine mode: what happens between reset and firmware_main. */
  .section .vectors, "ax"
  .globl reset
reset:
  .option push
  .option norelax
  la gp, __global_pointer$
  .option pop
  la sp, stack_end
  .option push
  .option arch, +zicsr
  la t0, fault
  csrw mtvec, t0
  .option pop
  la t0, data_start
  la t1, data_end
  la t2, data_source
1:
  bgeu t0, t1, 2f
  lw t3, 0(t2)
  sw t3, 0(t0)
  addi t0, t0, 4
  addi t2, t2, 4
  j 1b
2:
  la t0, bss_start
  la t1, bss_end
3:
  bgeu t0, t1, 4f
  sw zero, 0(t0)
  addi t0, t0, 4
  j 3b
4:
  call firmware_main
  call board_exit
  .balign 4
fault:
  li a0, 99
  call board_exit
