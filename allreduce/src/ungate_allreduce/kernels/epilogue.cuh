// Residual add, RMSNorm and quantisation of a row part held in registers.
//
// The sum of squares is added in one order whatever the line format, the block size and the number of parts:
// a perfect binary tree over the 64 words of a leaf, then leaves l, l + 32, l + 64, ... in sequence for each of
// 32 lanes, then a binary tree over the lanes. Every operation is a correctly rounded float32 operation.
#pragma once
#include "exchange.cuh"

#if PATTERN
#define EW EPILOGUE_WORDS
#define EV EPILOGUE_VEC

DEV float word_square(const float* e) {
#if EPW == 1
  return __fmul_rn(e[0], e[0]);
#else
  return __fmaf_rn(e[1], e[1], __fmul_rn(e[0], e[0]));
#endif
}

// residual + reduced, rounded to the dtype as the stored residual is; returns the leaf sum in the leaf's first lane.
DEV float add_residual(u32* word, const u32* residual) {
  float square[EW];
#pragma unroll
  for (int w = 0; w < EW; ++w) {
    float a[EPW], b[EPW];
    decode(word[w], a);
    decode(residual[w], b);
#pragma unroll
    for (int e = 0; e < EPW; ++e) a[e] = __fadd_rn(a[e], b[e]);
    word[w] = encode(a);
    decode(word[w], a);
    square[w] = word_square(a);
  }
  float sum = __fadd_rn(square[0], square[1]);
  if (EW == 4) sum = __fadd_rn(sum, __fadd_rn(square[EW - 2], square[EW - 1]));
#pragma unroll
  for (int step = 1; step < LEAF_WORDS / EW; step *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, step));
  return sum;
}

DEV float row_scale(const Params& p, const float* leaf) {
  const int lane = threadIdx.x & 31;
  float sum = lane < LEAVES ? leaf[lane] : 0.0f;
#pragma unroll
  for (int l = 32; l < LEAVES; l += 32) {
    if (l + lane < LEAVES) sum = __fadd_rn(sum, leaf[l + lane]);
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, step));
  return __frsqrt_rn(__fadd_rn(__fmul_rn(sum, p.inverse_hidden), p.epsilon));
}

// Rows of normalised values, not yet rounded.
DEV void normalise(const u32* word, const u32* weight, float scale, float (*y)[EPW]) {
#pragma unroll
  for (int w = 0; w < EW; ++w) {
    float a[EPW], g[EPW];
    decode(word[w], a);
    decode(weight[w], g);
#pragma unroll
    for (int e = 0; e < EPW; ++e) {
      if (GEMMA) g[e] = __fadd_rn(1.0f, g[e]);
      y[w][e] = __fmul_rn(__fmul_rn(a[e], scale), g[e]);
    }
  }
}

DEV void store_norm(const Params& p, const Tile& t, u32 at, const float (*y)[EPW]) {
  u32 word[EW];
#pragma unroll
  for (int w = 0; w < EW; ++w) word[w] = encode(y[w]);
  store_row<EW>(p.out + row_bytes(t.row), at, HIDDEN, word);
}

#if QUANT == 1 || QUANT == 2
DEV void store_e4m3(const Params& p, const Tile& t, u32 at, const float (*y)[EPW], float inverse) {
  u8* row = p.quant_out + (u64)t.row * HIDDEN;
  u32 code[EW * EPW];
#pragma unroll
  for (int w = 0; w < EW; ++w) {
#pragma unroll
    for (int e = 0; e < EPW; ++e) code[w * EPW + e] = e4m3(__fmul_rn(y[w][e], inverse));
  }
  u32 element = at * EPW;
#if ALIGNED
  if (element + EW * EPW <= HIDDEN) {
#pragma unroll
    for (int i = 0; i < EW * EPW; i += 2) *(u16*)(row + element + i) = (u16)(code[i] | (code[i + 1] << 8));
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < EW * EPW; ++i) {
    if (element + i < HIDDEN) row[element + i] = (u8)code[i];
  }
}
#endif

#if QUANT == 3
// Offset of the scale of a 16-element block: plain rows, or the 128 x 4 tiles that block-scaled GEMMs read.
DEV u64 block_scale_at(u32 row, u32 block) {
#if SWIZZLED
  const u32 across = UP(HIDDEN / 16, 4);
  return ((u64)(row / 128) * across + block / 4) * 512 + (row % 32) * 16 + ((row % 128) / 32) * 4 + block % 4;
#else
  return (u64)row * (HIDDEN / 16) + block;
#endif
}

// Blocks of 16 elements share one e4m3 scale; lanes that hold one block are neighbours.
DEV void store_nvfp4(const Params& p, const Tile& t, u32 at, const float (*y)[EPW], float global_scale, bool valid) {
  // The bits of magnitudes are in the order of their values, NaN above all: e2m1 has no NaN, so the scale carries it.
  u32 most = 0u;
#pragma unroll
  for (int w = 0; w < EW; ++w) {
#pragma unroll
    for (int e = 0; e < EPW; ++e) most = max(most, __float_as_uint(absolute(y[w][e])));
  }
  constexpr int lanes = 16 / (EW * EPW);
#pragma unroll
  for (int step = 1; step < lanes; step *= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
  u32 code = e4m3(__fmul_rn(global_scale, __fmul_rn(__uint_as_float(most), 0.16666667f)));
  float value = code == 0x7fu ? 0.0f : e4m3_value(code);
  float inverse = value != 0.0f ? __fdiv_rn(global_scale, value) : 0.0f;
  if (!valid) return;
  u32 element = at * EPW;
  if ((element & 15u) == 0) p.scale_out[block_scale_at(t.row, element / 16)] = (u8)code;
  u8* row = p.quant_out + (u64)t.row * (HIDDEN / 2) + element / 2;
  const float* flat = &y[0][0];
#pragma unroll
  for (int i = 0; i < EW * EPW; i += 2) row[i / 2] = (u8)e2m1_pair(__fmul_rn(flat[i], inverse), __fmul_rn(flat[i + 1], inverse));
}
#endif

// What an aborted call leaves: NaN everywhere a reader might look.
DEV void poison(const Params& p, const Tile& t, u32 at, bool valid) {
  if (!valid) return;
  u32 word[EW];
#pragma unroll
  for (int w = 0; w < EW; ++w) word[w] = NAN_WORD;
  if (p.residual_out) store_row<EW>(p.residual_out + row_bytes(t.row), at, HIDDEN, word);
  if (NORM_OUT) store_row<EW>(p.out + row_bytes(t.row), at, HIDDEN, word);
#if QUANT == 1 || QUANT == 2
  for (int i = 0; i < EW * EPW; ++i) {
    if (at * EPW + i < HIDDEN) p.quant_out[(u64)t.row * HIDDEN + at * EPW + i] = 0x7f;
  }
#endif
#if QUANT == 2
  if (at == 0) ((float*)p.scale_out)[t.row] = __uint_as_float(0x7fc00000u);
#endif
#if QUANT == 3
  if ((at * EPW & 15u) == 0) p.scale_out[block_scale_at(t.row, at * EPW / 16)] = 0x7f;
#endif
}
#endif
