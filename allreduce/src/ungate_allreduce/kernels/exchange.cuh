// One rank's side of the exchange: push its lines, wait for its peers', add in rank order.
#pragma once
#include "geometry.cuh"

#if WORLD > 1
DEV void push(const Params& p, u64 offset, u32 line, const u32* word, u32 tag) {
  u64 at = offset + 16ull * line;
#pragma unroll
  for (int k = 0; k < TARGETS; ++k) {
    if (TARGETS == 1 || k != (int)p.rank) st_line(p.target[k] + at, word, tag);
  }
}

// Clock cycles of a multiprocessor during which this thread asks for nothing.
DEV void hold(u32 cycles) {
  u32 begin, now;
  asm volatile("mov.u32 %0, %clock;" : "=r"(begin));
  do {
    asm volatile("mov.u32 %0, %clock;" : "=r"(now));
  } while (now - begin < cycles);
}

// Polling every missing line of a message that takes longer to read than a round trip would put one poll behind
// the bytes of the one before. Then a thread asks for one line, and for all that miss once that one has come.
#define BULKY(p) (PEERS > 1 && (p).lines * PEERS > 4096u)

// sum[v] = the words of line[v] added in float32 in rank order, rounded once. All peers' loads of a batch are
// issued before the first is looked at; a batch is as large as 64 registers hold. False: the wait was given up.
// `send(v)` pushes this rank's line v where that was not done before: with LAG the loads of line v are issued behind
// the push of line v + LAG, so that reads and writes of a large message overlap on the link. `meanwhile` runs once,
// when the first loads are on their way. With PAUSE the loads wait so many clock cycles: a poll that comes just too
// early costs a round trip, and two ranks that alternate in being early never meet.
template <int COUNT, int BEHIND, typename Send, typename Meanwhile>
DEV bool gather(const Params& p, u64 offset, const u32* line, const bool* valid, const u32 (*own)[LINE_WORDS],
                u32 (*sum)[LINE_WORDS], u32 tag, Wait& wait, Send send, Meanwhile meanwhile) {
  constexpr int fit = 16 / PEERS < 1 ? 1 : 16 / PEERS;
  constexpr int batch = COUNT < fit ? COUNT : fit;
#pragma unroll
  for (int v0 = 0; v0 < COUNT; v0 += batch) {
    u32 raw[PEERS][batch][4];
    if (PAUSE > 0 && v0 == 0) {
      meanwhile();
      hold(PAUSE);
    }
#pragma unroll
    for (int step = 0; step < batch + BEHIND; ++step) {
      if (step < batch && v0 + step < COUNT) send(v0 + step);
      const int b = step - BEHIND;
      if (b < 0 || v0 + b >= COUNT) continue;
#pragma unroll
      for (int q = 0; q < PEERS; ++q) {
        if (valid[v0 + b]) ld_line(p.source[q + (q >= (int)p.rank)] + offset + 16ull * line[v0 + b], raw[q][b]);
      }
    }
    if (PAUSE == 0 && v0 == 0) meanwhile();
    int before = PEERS * batch;
    while (true) {
      int missing = 0, last = 0;
#pragma unroll
      for (int q = 0; q < PEERS; ++q) {
#pragma unroll
        for (int b = 0; b < batch; ++b) {
          if (v0 + b < COUNT && valid[v0 + b] && !arrived(raw[q][b], tag)) {
            ++missing;
            last = q;
          }
        }
      }
      if (missing == 0) break;
      if (expired(wait, p, REASON_TIMEOUT, last + (last >= (int)p.rank), tag)) return false;
      const bool all = missing < before || !BULKY(p);
      before = missing;
      bool asked = false;
#pragma unroll
      for (int q = 0; q < PEERS; ++q) {
        u64 from = p.source[q + (q >= (int)p.rank)] + offset;
#pragma unroll
        for (int b = 0; b < batch; ++b) {
          if (v0 + b < COUNT && valid[v0 + b] && !arrived(raw[q][b], tag) && (all || !asked)) {
            ld_line(from + 16ull * line[v0 + b], raw[q][b]);
            asked = true;
          }
        }
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (v0 + b >= COUNT) continue;
#pragma unroll
      for (int w = 0; w < LINE_WORDS; ++w) {
        float total[EPW];
#pragma unroll
        for (int r = 0; r < WORLD; ++r) {
          u32 word = own[v0 + b][w];
          if (r < PEERS && r < (int)p.rank) word = payload(raw[r < PEERS ? r : 0][b], w);
          if (r > 0 && r > (int)p.rank) word = payload(raw[r > 0 ? r - 1 : 0][b], w);
          float term[EPW];
          decode(word, term);
#pragma unroll
          for (int e = 0; e < EPW; ++e) total[e] = r == 0 ? term[e] : __fadd_rn(total[e], term[e]);
        }
        // A thread beyond the end of the tile read nothing and has to add nothing to the row's sum of squares.
        sum[v0 + b][w] = valid[v0 + b] ? encode(total) : 0u;
      }
    }
  }
  return true;
}

// Two-shot, second part: line[v] as its owner reduced it. A rank sends its peers the lines that they own and, reduced,
// the lines that it owns itself, so every line of its slot is written once a call, as with one shot.
template <int COUNT, typename Meanwhile>
DEV bool collect(const Params& p, u64 offset, const u32* line, const u32* owner, const bool* valid,
                 u32 (*out)[LINE_WORDS], u32 tag, Wait& wait, Meanwhile meanwhile) {
  u32 raw[COUNT][4];
#pragma unroll
  for (int v = 0; v < COUNT; ++v) {
    if (valid[v]) ld_line(p.source[owner[v]] + offset + 16ull * line[v], raw[v]);
  }
  meanwhile();
  while (true) {
    int missing = -1;
#pragma unroll
    for (int v = 0; v < COUNT; ++v) {
      if (valid[v] && !arrived(raw[v], tag)) missing = owner[v];
    }
    if (missing < 0) break;
    if (expired(wait, p, REASON_TIMEOUT, missing, tag)) return false;
#pragma unroll
    for (int v = 0; v < COUNT; ++v) {
      if (valid[v] && !arrived(raw[v], tag)) ld_line(p.source[owner[v]] + offset + 16ull * line[v], raw[v]);
    }
  }
#pragma unroll
  for (int v = 0; v < COUNT; ++v) {
    if (valid[v]) {
#pragma unroll
      for (int w = 0; w < LINE_WORDS; ++w) out[v][w] = payload(raw[v], w);
    }
  }
  return true;
}

// Copies of the header line, one for so many blocks: reads of one host address by many blocks queue up, about
// 0.6 us each (measured on an H200), so that a single header would cost more than the data.
DEV u32 header_copies(const Params& p) {
  const u32 copies = p.lines / 64u;
  return copies < 1u ? 1u : (copies > HEADERS ? HEADERS : copies);
}

#if LINE_WORDS == 4
// Up to here re-arming fits into the time of the first poll; more would hold up the reads of other warps. With two
// shots it always goes behind the second push, which peers wait for, and overlaps the reads after it.
#define REARM_EARLY(p) (SHOTS == 1 && (p).lines <= 2048u)
#define REARM_LATE(p) (SHOTS == 1 && (p).lines > 2048u)

// Puts the sentinel back into the generation of two calls ago. This rank has finished the call before this one, so
// every peer has entered that call and finished the one before it: nobody reads there. The fence of the next call
// orders these stores ahead of the push of the call after it, and the generation is read again one call later.
DEV void rearm(const Params& p, u32 calls, u32 used) {
  const u64 old = p.sentinel_offset + ((calls + GENERATIONS - 2u) % GENERATIONS) * p.sentinel_generation;
#pragma unroll 1
  for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < used; i += gridDim.x * THREADS) {
#pragma unroll
    for (int k = 0; k < TARGETS; ++k) {
      if (TARGETS > 1 && k == (int)p.rank) continue;
      st_words(p.target[k] + old + 16ull * i, SENTINEL, SENTINEL, SENTINEL, SENTINEL);
    }
  }
}
#endif

// The service warp: tells peers which call this is and hears which one theirs is. `prior` is this block's place
// among those that have read the state, fetched while the header is on its way.
DEV bool serve(const Params& p, u32 tag, bool failed, u32& prior) {
  const int lane = threadIdx.x & 31;
  const u64 header = (u64)(tag & 1u) * (HEADERS * 64u);
  const u32 copies = header_copies(p);
  bool good = !failed;
  const bool listens = good && lane < WORLD && lane != (int)p.rank;
  if (good) {
#pragma unroll 1
    for (u32 copy = blockIdx.x + lane * gridDim.x; copy < copies; copy += 32u * gridDim.x) {
#pragma unroll
      for (int k = 0; k < TARGETS; ++k) {
        if (TARGETS == 1 || k != (int)p.rank) st_tagged(p.target[k] + header + 64ull * copy, p.describe, p.rows, tag);
      }
    }
  }
  u32 raw[4] = {0u, 0u, 0u, 0u};
  const u64 heard = listens ? p.source[lane] + header + 64ull * (blockIdx.x % copies) : 0ull;
  if (listens) ld_tagged(heard, raw);
  BAR_SYNC(2, THREADS + 32);
  if (lane == 0) prior = atomicAdd(&p.state->arrivals, 1u);
  if (listens) {
    Wait wait = {0u, 0ull};
    while (raw[1] != tag || raw[3] != tag) {
      if (expired(wait, p, REASON_TIMEOUT, lane, tag)) {
        good = false;
        break;
      }
      ld_tagged(heard, raw);
    }
    if (good && (raw[0] != p.describe || raw[2] != p.rows)) {
      give_up(p, REASON_MISMATCH, lane, tag);
      good = false;
    }
  }
  return good;
}

// The last block to have read the state advances it; and one unused line a call is refreshed, so that no tag in the
// slot is ever as old as a full turn of the epoch.
DEV void advance(const Params& p, u32 tag, u32 calls, u32 prior) {
  State* s = p.state;
  if (prior == gridDim.x - 1u) {
    s->arrivals = 0u;
#if FROZEN
    return;  // timing only: the next launch makes this same call again
#endif
    s->epoch = tag;
#if LINE_WORDS == 4
    s->sentinel_calls = calls + 1u;
    s->used[calls % GENERATIONS] = p.lines;
#endif
  }
  if (blockIdx.x != 0) return;
  const u32 spare = (tag >> 1) % p.tagged_lines;
  if (LINE_WORDS != 4 && spare < p.lines) return;
  const u64 at = p.tagged_offset + (tag & 1u) * p.tagged_generation + 16ull * spare;
#pragma unroll
  for (int k = 0; k < TARGETS; ++k) {
    if (TARGETS == 1 || k != (int)p.rank) st_tagged(p.target[k] + at, 0u, 0u, tag);
  }
}
#endif
