// Endurance check inside one graph: every replay draws new data and a new delay on each rank, and every rank
// recomputes what the reduction has to give. bfloat16, float32 sum in rank order, as the allreduce kernel adds.
#define DTYPE 2
#include "numeric.cuh"

struct Args {
  u32* data;      // this rank's input, or the reduced tensor to verify
  u32* residual;  // 0 for the plain operation
  u64* cell;      // {call number, state of the delay's generator}
  u64* sink;      // {wrong words, calls verified, word index of the first wrong one + 1}
  u32 words;
  u32 rank;
  u32 world;
  u32 salt;
  u32 limit_ns;
  u32 spare;
};

DEV u32 mix(u32 x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// Two bfloat16 of moderate size; one word in 128 is the sentinel's pattern, which is a NaN twice.
DEV u32 value(u64 call, u32 salt, u32 rank, u32 index) {
  u32 h = mix((u32)call * 0x9e3779b9u ^ mix(salt * 31u + rank) ^ index);
  if ((h & 127u) == 0) return 0xffffffffu;
  u32 g = mix(h);
  u32 low = (h & 0x807fu) | ((122u + ((h >> 8) & 7u)) << 7);
  u32 high = (g & 0x807fu) | ((122u + ((g >> 8) & 7u)) << 7);
  return low | (high << 16);
}

extern "C" __global__ void next(const __grid_constant__ Args p) {
  p.cell[0] += 1;
  u64 x = p.cell[1] * 6364136223846793005ull + 1442695040888963407ull + p.rank;
  p.cell[1] = x;
  u64 now, begin;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  // Three calls in four start at once; the fourth is late by up to the limit.
  u64 wait = p.limit_ns && ((x >> 60) & 3u) == 0 ? (x >> 30) % p.limit_ns : 0;
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < wait);
}

extern "C" __global__ void scramble(const __grid_constant__ Args p) {
  const u64 call = p.cell[0];
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < p.words; i += gridDim.x * blockDim.x) {
    p.data[i] = value(call, p.salt, p.rank, i);
  }
}

extern "C" __global__ void verify(const __grid_constant__ Args p) {
  const u64 call = p.cell[0];
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < p.words; i += gridDim.x * blockDim.x) {
    float sum[2], term[2];
    decode(value(call, p.salt, 0, i), sum);
    for (u32 r = 1; r < p.world; ++r) {
      decode(value(call, p.salt, r, i), term);
      sum[0] = __fadd_rn(sum[0], term[0]);
      sum[1] = __fadd_rn(sum[1], term[1]);
    }
    u32 want = encode(sum);
    if (p.residual) {
      decode(want, sum);
      decode(p.residual[i], term);
      sum[0] = __fadd_rn(sum[0], term[0]);
      sum[1] = __fadd_rn(sum[1], term[1]);
      want = encode(sum);
    }
    u32 got = p.data[i];
    float a[2], b[2];
    decode(want, a);
    decode(got, b);
    bool same = got == want || ((a[0] == b[0] || (a[0] != a[0] && b[0] != b[0])) && (a[1] == b[1] || (a[1] != a[1] && b[1] != b[1])));
    if (!same) {
      atomicAdd(&p.sink[0], 1ull);
      atomicCAS(&p.sink[2], 0ull, (u64)i + 1ull);
    }
    p.data[i] = 0x55555555u;  // poison: the next call has to write it again
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(&p.sink[1], 1ull);
}
