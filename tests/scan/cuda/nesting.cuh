// Shapes in which no C++ grammar survives: the directives are read line by line.
#pragma once
#ifndef NESTING_CUH_
#define NESTING_CUH_

/* gates in comments are none:
#if __CUDA_ARCH__ >= 900
#endif
*/
#if defined(__CUDA_ARCH__)  // ok: host-device split
#endif
#if !defined(__CUDA_ARCH__)  // ok: host only
#endif
#if CUDART_VERSION >= 12080  // ok: toolkit
#endif

template <typename T>
__device__ bool inside_a_condition(T x) {
  if constexpr (sizeof(T) == 2
#if __CUDA_ARCH__ >= 900  // gate: cuda-preprocessor 90 100 103 107 110 120 121
                && true
#endif
  ) {
    return x > 0;
  }
  return call(x,
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // gate: cuda-preprocessor 90
              1
#else  // ok: the other branch
              2
#endif
  );
}

__global__ void brace_in_another_branch(int* p) {
#if (defined(__CUDA_ARCH__) and (__CUDA_ARCH__ >= 900)) and not defined(__CUDA_ARCH_FEAT_SM90_ALL)  // gate: cuda-preprocessor 100 103 107 110 120 121
  if (p) {
#else
  {
#endif
    *p = 1;
  }
#if defined __CUDA_ARCH__ && \
    (__CUDA_ARCH__ == 1210)
  // gate-above: cuda-preprocessor 121
  *p = 2;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // gate: cuda-preprocessor 80 86 87 88 89 90 100 103 107 110 120 121
  *p = 3;
#endif
}

__device__ float fallback_first(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800  // gate: cuda-preprocessor 80 86 87 88 89 90 100 103 107 110 120 121
  return slow(x);
#else
  return native(x);
#endif
}

__device__ void stops() {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 1000)  // gate: cuda-preprocessor 100 103 107 110 120 121
#error "needs sm_100"
#endif
}

const char* text = "#if __CUDA_ARCH__ >= 900";  // ok: a string

#endif  // NESTING_CUH_
