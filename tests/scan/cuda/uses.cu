#include "macros.h"

__global__ void kernel(int* p) {
#ifdef FAST_SM90A_ENABLED  // gate: cuda-preprocessor 90
  *p = 1;
#endif
#ifndef BLOCK_SCALED_ENABLED  // gate: cuda-preprocessor 120 121
  __trap();
#endif
#if HOPPER_OR_LATER  // gate: cuda-preprocessor 90 100 103 107 110 120 121
  *p = 2;
#endif
#if BUILD_CUDA_ARCH == 1200  // gate: cuda-preprocessor 120
  *p = 3;
#endif
#ifdef COMPILE_FOR_SM90  // gate: cuda-preprocessor unknown
  *p = 4;
#endif
#if UNROLL > 2  // ok: a size
  *p = 5;
#endif
#if __CUDA_ARCH_HAS_FEATURE__(SM100_ALL)  // gate: cuda-preprocessor 100
  *p = 6;
#endif
}
