// What a launch is told, what a rank remembers between launches, and how a wait ends.
#pragma once
#include "line.cuh"

// Kept in step with ungate_allreduce.launch.Params, field by field.
struct Params {
  const u8* input;
  const u8* residual;
  const u8* weight;
  const float* scale;
  u8* out;
  u8* residual_out;
  u8* quant_out;
  u8* scale_out;
  struct State* state;
  u64 partials;       // device memory, 8 bytes a leaf: float | tag << 32
  u64 report;         // this rank's report word, host memory
  u64 reports;        // report word of rank 0; rank r's is 64 * r bytes further
  u64 tagged_offset;  // LL8 and F12 area of a slot: [2 generations][lines]
  u64 tagged_generation;
  u64 sentinel_offset;  // F16 area of a slot: [5 generations][lines]
  u64 sentinel_generation;
  u64 source[WORLD];  // where this rank reads rank r's slot
  u64 target[TARGETS];  // where this rank writes its own slot: once for a shared slot, once a peer for push
  u32 rank;
  u32 rows;  // tokens, or elements for the plain operation
  u32 lines;
  u32 tagged_lines;  // capacity of one generation of the tagged area
  u32 describe;  // hash of everything that has to be the same on all ranks but the rows
  float epsilon;
  float inverse_hidden;
};

struct __align__(16) State {
  u32 epoch;  // calls finished
  u32 status;  // 0, or the reason of the first abort
  u32 sentinel_calls;
  u32 arrivals;
  u32 used[8];  // lines used in each sentinel generation (5 of 8)
  u64 budget_ns;
  u64 timeouts;
};

#define GENERATIONS 5u  // of the sentinel format
#define HEADERS 32u  // header lines of a generation, 64 bytes apart

#define REASON_TIMEOUT 1u
#define REASON_MISMATCH 2u
#define REASON_PEER 3u
#define REASON_SPLIT 4u

DEV u64 global_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

DEV u32 ld_u32_gpu(const u32* address) {
  u32 value;
  asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

DEV u64 ld_u64_sys(u64 address) {
  u64 value;
  asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}

// The first abort of a rank wins; the report is one 8-byte store to host memory: reason, peer, tag.
DEV void give_up(const Params& p, u32 reason, u32 peer, u32 tag) {
  if (atomicCAS(&p.state->status, 0u, reason) == 0u) {
    u64 word = (u64)reason | ((u64)peer << 8) | ((u64)tag << 32);
    asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(p.report), "l"(word) : "memory");
  }
}

#if WORLD > 1
// Whether a peer whose lines do not come announced another call than this rank's under the same number. The first
// copy of the header is looked at, since the number of copies follows from the message.
DEV bool differs(const Params& p, u32 peer, u32 tag) {
  u32 raw[4];
  ld_tagged(p.source[peer] + (u64)(tag & 1u) * (HEADERS * 64u), raw);
  return raw[1] == tag && raw[3] == tag && (raw[0] != p.describe || raw[2] != p.rows);
}
#endif

struct Wait {
  u32 polls;
  u64 since;
};

// A wait that lasts so long is no part of an exchange. Only then the peers' reports are read: they lie in host memory,
// and thousands of threads that read them take longer than the call itself. After so many polls instead, which pass in
// 100 us where the lines are in device memory, each rank's reads held up its lines, for which the other rank's threads
// then polled as long: two H200 stayed in that state for whole rounds, 172 us a call of 64 KiB instead of 2.8 us.
#define LONG_NS 2000000ull

// Called after a poll that found nothing. True ends the wait: the budget is spent, another thread of this
// rank gave up, or a peer reported that it did. Looks at the clock every 32 polls (about 40 us over PCIe).
DEV bool expired(Wait& wait, const Params& p, u32 reason, u32 peer, u32 tag) {
  if (++wait.polls & 31u) return false;
  u64 now = global_ns();
  if (wait.since == 0) {
    wait.since = now;
    return false;
  }
  if (ld_u32_gpu(&p.state->status) != 0u) return true;
#if WORLD > 1
  if ((wait.polls & 255u) == 0u && now - wait.since > LONG_NS) {
#pragma unroll 1
    for (u32 r = 0; r < WORLD; ++r) {
      if (r != p.rank && (u32)ld_u64_sys(p.reports + 64ull * r) != 0u) {
        give_up(p, REASON_PEER, r, tag);
        return true;
      }
    }
    if (reason == REASON_TIMEOUT && differs(p, peer, tag)) {
      give_up(p, REASON_MISMATCH, peer, tag);
      return true;
    }
  }
#endif
  if (now - wait.since > *(volatile u64*)&p.state->budget_ns) {
    give_up(p, reason, peer, tag);
    return true;
  }
  return false;
}

// Named barriers count whole warps each time one arrives, so a warp has to be together before it does: lanes
// that leave a polling loop one by one would otherwise arrive twice and open the barrier early.
#define BAR_SYNC(id, threads)                                      \
  do {                                                             \
    __syncwarp();                                                  \
    asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(threads) : "memory"); \
  } while (0)
#define BAR_ARRIVE(id, threads)                                      \
  do {                                                               \
    __syncwarp();                                                    \
    asm volatile("bar.arrive %0, %1;" ::"n"(id), "n"(threads) : "memory"); \
  } while (0)

// Barrier over `threads` threads that also tells every one of them whether any had `flag` set.
DEV bool join_any(bool flag, int threads) {
  u32 any;
  __syncwarp();
  asm volatile("{.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\tbar.red.or.pred q, 1, %2, p;\n\tselp.u32 %0, 1, 0, q;}"
               : "=r"(any) : "r"((u32)flag), "r"(threads) : "memory");
  return any != 0u;
}
