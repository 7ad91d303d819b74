// Two-shot allreduce for large messages: each rank reduces its share, then all gather the shares.
// Built into the same module as the fused one-shot kernel.
#pragma once

#include "labkernels/runtime.h"

namespace labkernels {

// Mirrored by labkernels.comm.allreduce.Params.
struct TwoShotParams {
  uint32_t* flags;  // shared: [2][kMaxRanks]
  float* staging;   // shared: [2][world_size + 1][capacity]; the last part takes the reduced shares
  const float* in;
  float* out;
  int64_t count;
  int64_t capacity;
  int64_t limit_ns;
  uint32_t sequence;  // 1 at the first call; the same on all ranks
  int32_t rank;
  int32_t world_size;
  int32_t status;
};

__device__ float* staged(const TwoShotParams& p, int part) {
  return p.staging + (int64_t(p.sequence & 1) * (p.world_size + 1) + part) * p.capacity;
}

// Raises this rank's flag of the stage and waits until no peer is behind.
__device__ bool meet(TwoShotParams& p, int stage) {
  Spin spin{p.limit_ns};
  uint32_t* flags = p.flags + stage * kMaxRanks;
  __atomic_store_n(flags + p.rank, p.sequence, __ATOMIC_RELEASE);
  for (int rank = 0; rank < p.world_size; ++rank) {
    while (int32_t(__atomic_load_n(flags + rank, __ATOMIC_ACQUIRE) - p.sequence) < 0) {
      if (!spin.again()) {
        p.status = kTimedOut;
        return false;
      }
    }
  }
  return true;
}

}  // namespace labkernels

__global__ void lab_kernel_two_shot_reduce(labkernels::TwoShotParams* params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
  using namespace labkernels;
  TwoShotParams& p = *params;
  float* mine = staged(p, p.rank);
  for (int64_t i = 0; i < p.count; ++i) mine[i] = p.in[i];
  if (!meet(p, 0)) return;
  float* reduced = staged(p, p.world_size);
  const int64_t end = p.count * (p.rank + 1) / p.world_size;
  for (int64_t i = p.count * p.rank / p.world_size; i < end; ++i) {
    float sum = 0;
    for (int rank = 0; rank < p.world_size; ++rank) sum += staged(p, rank)[i];
    reduced[i] = sum;
  }
#endif
}

__global__ void lab_kernel_two_shot_gather(labkernels::TwoShotParams* params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
  using namespace labkernels;
  TwoShotParams& p = *params;
  if (!meet(p, 1)) return;
  const float* reduced = staged(p, p.world_size);
  for (int64_t i = 0; i < p.count; ++i) p.out[i] = reduced[i];
#endif
}
