// Macros at one remove: what is defined under an arch #if is a gate wherever it is tested.
#if (__CUDACC_VER_MAJOR__ >= 12)  // ok: toolkit
#define FAST_SM90_SUPPORTED 1
#if (!defined(FAST_SM90_ENABLED) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900)  // gate: cuda-preprocessor 90
#define FAST_SM90_ENABLED 1
#if (!defined(FAST_SM90A_ENABLED) && defined(__CUDA_ARCH_FEAT_SM90_ALL))  // gate: cuda-preprocessor 90
#define FAST_SM90A_ENABLED 1
#endif
#endif
#endif

#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__)  // gate: cuda-preprocessor 90 100 103 107 110 120 121
#define FAMILY(NUMBER) (__CUDA_ARCH_FAMILY_SPECIFIC__ == NUMBER)
#else
#define FAMILY(NUMBER) (false)
#endif

#if FAMILY(1200) || FAMILY(1210)  // gate: cuda-preprocessor 120 121
#define BLOCK_SCALED_ENABLED
#endif

#define HOPPER_OR_LATER (BUILD_CUDA_ARCH >= 900)  // gate: cuda-host-compare 90 100 103 107 110 120 121

#ifndef UNROLL  // ok: a default
#define UNROLL 4
#endif

#if defined(FAST_SM90_SUPPORTED)  // ok: depends on the toolkit alone
#endif
