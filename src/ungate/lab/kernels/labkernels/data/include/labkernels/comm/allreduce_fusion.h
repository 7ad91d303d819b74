// One-shot allreduce in the manner of Lamport, fused with the residual add and RMSNorm.
//
// The payload is its own flag: every word of a buffer holds a sentinel (negative zero) until its
// owner has written it, and a reader polls the word itself. Three buffers take turns. Who has read
// round k from all peers knows that all have finished round k-1, and may clear its own part of that
// round's buffer, which it fills again in round k+2.
#pragma once

#include <cstring>

#include "labkernels/norm.h"
#include "labkernels/runtime.h"

namespace labkernels {

constexpr uint32_t kSentinel = 0x80000000u;  // the bits of -0.0f
constexpr int kBuffers = 3;

// Private to a rank; mirrored by labkernels.comm.allreduce_fusion.State.
struct LamportState {
  uint64_t rounds;
  uint64_t polls;
  int64_t written[kBuffers];
  int32_t waited_for;
  int32_t reserved;
};

// Mirrored by labkernels.comm.allreduce_fusion.Params.
struct FusionParams {
  uint32_t* buffers;  // shared: [kBuffers][world_size][capacity]
  LamportState* state;
  const float* allreduce_in;  // [tokens][hidden]
  const float* residual_in;   // [tokens][hidden]
  const float* rms_gamma;     // [hidden]
  float* residual_out;        // [tokens][hidden]
  float* norm_out;            // [tokens][hidden]
  int64_t capacity;           // words of a rank's part
  int64_t limit_ns;
  int32_t rank;
  int32_t world_size;
  int32_t tokens;
  int32_t hidden;
  float rms_eps;
  int32_t status;
};

__device__ uint32_t* part(const FusionParams& p, int buffer, int rank) {
  return p.buffers + (int64_t(buffer) * p.world_size + rank) * p.capacity;
}

__device__ void fill_sentinel(uint32_t* words, int64_t count) {
  for (int64_t i = 0; i < count; ++i) __atomic_store_n(words + i, kSentinel, __ATOMIC_RELAXED);
}

}  // namespace labkernels

// Marks every word of this rank's parts as not yet written.
__global__ void lab_kernel_lamport_initialize(labkernels::FusionParams* params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
  using namespace labkernels;
  FusionParams& p = *params;
  for (int buffer = 0; buffer < kBuffers; ++buffer) fill_sentinel(part(p, buffer, p.rank), p.capacity);
  std::memset(p.state, 0, sizeof(LamportState));
  p.state->waited_for = -1;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// norm_out = rms_norm(residual_out) * gamma, residual_out = residual_in + sum over ranks of allreduce_in.
// All ranks add in rank order, so all ranks get the same bits.
__global__ void lab_kernel_lamport_one_shot_allreduce_norm(labkernels::FusionParams* params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
  using namespace labkernels;
  FusionParams& p = *params;
  LamportState& state = *p.state;
  const int64_t count = int64_t(p.tokens) * p.hidden;
  const int buffer = int(state.rounds % kBuffers);
  Spin spin{p.limit_ns};

  uint32_t* mine = part(p, buffer, p.rank);
  __atomic_thread_fence(__ATOMIC_RELEASE);  // what was cleared in the round before is seen before this round's words
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word;
    std::memcpy(&word, p.allreduce_in + i, sizeof word);
    __atomic_store_n(mine + i, word == kSentinel ? 0u : word, __ATOMIC_RELAXED);
  }

  for (int token = 0; token < p.tokens; ++token) {
    const int64_t row = int64_t(token) * p.hidden;
    float* sum = p.residual_out + row;
    for (int i = 0; i < p.hidden; ++i) sum[i] = 0.0f;
    for (int rank = 0; rank < p.world_size; ++rank) {
      const uint32_t* theirs = part(p, buffer, rank) + row;
      for (int i = 0; i < p.hidden; ++i) {
        uint32_t word = __atomic_load_n(theirs + i, __ATOMIC_RELAXED);
        while (word == kSentinel) {
          if (!spin.again()) {
            state.waited_for = rank;
            p.status = kTimedOut;
            return;
          }
          word = __atomic_load_n(theirs + i, __ATOMIC_RELAXED);
        }
        float value;
        std::memcpy(&value, &word, sizeof value);
        sum[i] += value;
      }
    }
    for (int i = 0; i < p.hidden; ++i) sum[i] += p.residual_in[row + i];
    rms_norm(sum, p.rms_gamma, p.rms_eps, p.hidden, p.norm_out + row);
  }

  const int before = (buffer + kBuffers - 1) % kBuffers;
  fill_sentinel(part(p, before, p.rank), state.written[before]);
  state.written[before] = 0;
  state.written[buffer] = count;
  state.rounds += 1;
  state.polls += spin.polls;
#endif
}
