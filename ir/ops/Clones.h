// Defines TENON_CLONES, which compiles a function for several instruction sets.
#pragma once

/// Which of them runs is chosen when the program starts, so that the compiler itself runs
/// everywhere. What such a function computes does not depend on the choice: it adds in an order of
/// its own, and nothing in this project contracts products and sums.
#if defined(__x86_64__) && defined(__gnu_linux__)
#define TENON_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TENON_CLONES
#endif
