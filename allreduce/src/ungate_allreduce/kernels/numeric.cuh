// Number formats without toolkit headers: 32-bit words of the reduced tensor to float and back.
// DTYPE 0 = float32 (one element a word), 1 = float16, 2 = bfloat16 (two elements a word, low half first).
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEV static __device__ __forceinline__

#if DTYPE == 0
#define EPW 1
#define NAN_WORD 0x7fc00000u
#else
#define EPW 2
#define NAN_WORD 0x7fff7fffu
#endif

#if DTYPE == 0
DEV void decode(u32 word, float* e) { e[0] = __uint_as_float(word); }
DEV u32 encode(const float* e) { return __float_as_uint(e[0]); }
#elif DTYPE == 1
DEV void decode(u32 word, float* e) {
  asm("{.reg .f16 a, b;\n\tmov.b32 {a, b}, %2;\n\tcvt.f32.f16 %0, a;\n\tcvt.f32.f16 %1, b;}"
      : "=f"(e[0]), "=f"(e[1]) : "r"(word));
}
DEV u32 encode(const float* e) {
  u32 word;
  asm("{.reg .f16 a, b;\n\tcvt.rn.f16.f32 a, %1;\n\tcvt.rn.f16.f32 b, %2;\n\tmov.b32 %0, {a, b};}"
      : "=r"(word) : "f"(e[0]), "f"(e[1]));
  return word;
}
#else
DEV void decode(u32 word, float* e) {
  e[0] = __uint_as_float(word << 16);
  e[1] = __uint_as_float(word & 0xffff0000u);
}
#if __CUDA_ARCH__ >= 800
DEV u32 encode(const float* e) {
  u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(e[1]), "f"(e[0]));
  return word;
}
#else
// sm_75 has no conversion instruction: round to nearest even on the bits, NaN to the canonical NaN.
DEV u32 encode_one(float value) {
  u32 bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
DEV u32 encode(const float* e) { return encode_one(e[0]) | (encode_one(e[1]) << 16); }
#endif
#endif

DEV float absolute(float value) { return __uint_as_float(__float_as_uint(value) & 0x7fffffffu); }

// e4m3 with saturation to 448; NaN becomes 0x7f.
DEV u32 e4m3(float value) {
#if __CUDA_ARCH__ >= 890
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return pair & 0xffu;
#else
  u32 bits = __float_as_uint(value);
  u32 sign = (bits >> 24) & 0x80u;
  u32 mag = bits & 0x7fffffffu;
  if (mag > 0x7f800000u) return 0x7fu;
  if (mag >= 0x43e80000u) return sign | 0x7eu;  // 464 and above: half way to the next step is 464
  if (mag < 0x3c800000u) {                      // below 2^-6: multiples of 2^-9
    u32 steps = (u32)__float2int_rn(__fmul_rn(__uint_as_float(mag), 512.0f));
    return sign | steps;                        // 8 steps are the smallest normal, whose code is 8
  }
  mag += 0x7ffffu + ((mag >> 20) & 1u);
  u32 code = (mag >> 20) - (120u << 3);
  return sign | (code > 0x7eu ? 0x7eu : code);
#endif
}

DEV float e4m3_value(u32 code) {
  u32 exponent = (code >> 3) & 15u, mantissa = code & 7u;
  if (exponent == 0) return __fmul_rn((float)mantissa, 0.001953125f);
  return __uint_as_float(((exponent + 120u) << 23) | (mantissa << 20));
}

// Two e2m1 values in one byte, the first in the low nibble.
DEV u32 e2m1_pair(float low, float high) {
#if NATIVE_E2M1
  u32 pair;
  asm("{.reg .b8 p;\n\tcvt.rn.satfinite.e2m1x2.f32 p, %1, %2;\n\tcvt.u32.u8 %0, p;}"
      : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  u32 out = 0;
  float pair[2] = {low, high};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float m = absolute(pair[i]);
    // Ties go to the even code: 0.25 -> 0, 0.75 -> 1, 1.25 -> 1, 1.75 -> 2, 2.5 -> 2, 3.5 -> 4, 5 -> 4.
    u32 code = (m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) + (m >= 3.5f) + (m > 5.0f);
    const u32 sign = (__float_as_uint(pair[i]) >> 28) & 8u;
    out |= (m == m ? code | sign : 7u) << (4 * i);
  }
  return out;
#endif
}
