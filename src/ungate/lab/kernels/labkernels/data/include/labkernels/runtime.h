// What a kernel needs to run on a CPU: one process a rank, one core a kernel, shared memory between them.
#pragma once

#include <cstdint>
#include <ctime>

// A kernel is an unmangled symbol that no caller may swallow, so that its body can be judged in the object.
#define __global__ extern "C" __attribute__((visibility("default"), noinline, used))
#define __device__ static inline
#define LAB_HOST extern "C" __attribute__((visibility("default")))

namespace labkernels {

constexpr int kMaxRanks = 8;

enum Status : int32_t { kOk = 0, kTooLarge = 1, kBadWorld = 2, kTimedOut = 3 };

__device__ void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

__device__ int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

// A spin that says whom it waited for instead of waiting for ever. It never sleeps and never
// yields its core: that is what a kernel does, too.
struct Spin {
  int64_t limit_ns;
  int64_t started = 0;
  uint64_t polls = 0;

  bool again() {
    relax();
    if ((++polls & 0xffff) != 0) return true;
    const int64_t now = now_ns();
    if (started == 0) started = now;
    return now - started < limit_ns;
  }
};

}  // namespace labkernels
