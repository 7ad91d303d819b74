// The one allreduce kernel. Macros choose the world, the line format, one or two shots, the epilogue and the
// launch geometry; pointer tables in Params choose the transport. See docs in the package README.
#include "epilogue.cuh"

// Warps beyond the workers: one serves the protocol, and with re-armed lines one more issues the fence.
#define SERVICE (WORLD == 1 ? 0 : (LINE_WORDS == 4 ? 64 : 32))
#define BLOCK (THREADS + SERVICE)

struct Launch {
  Params rank[VIRTUAL];
};

DEV void ld_state(const State* state, u32* out) {
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "l"(state) : "memory");
}

#if PDL
// While the kernel before this one still runs: parameters come from constant memory, which every launch finds cold,
// so read one of each of its lines; and bring the first row's addresses and lines near. A prefetch reads nothing.
DEV void warm(const Params& p) {
  const u64 even = (u64)p.input ^ p.partials ^ p.source[0] ^ p.target[0];
  asm volatile("{.reg .pred q;\n\tsetp.eq.u64 q, %0, 1;\n\t@q trap;}" ::"l"(even));
#if PATTERN
  const u32 at = threadIdx.x * 16u;
  if (threadIdx.x % 8u == 0u && at < HIDDEN * (4 / EPW) && blockIdx.x / SPLIT < p.rows) {
    const u64 row = row_bytes(blockIdx.x / SPLIT) + at;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p.input + row));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p.weight + at));
    if (p.residual) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.residual + row));
  }
#endif
}
#endif

// A worker has read the state and pushed its lines: the service warp may advance the epoch, and the next kernel
// may be launched up to its own wait.
DEV void released(bool first) {
  if (first) BAR_ARRIVE(2, THREADS + 32);
#if PDL
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#if PATTERN && SPLIT > 1
DEV u64 ld_partial(u64 address) {
  u64 value;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}

DEV void st_partial(u64 address, float value, u32 tag) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(address),
               "l"((u64)__float_as_uint(value) | ((u64)tag << 32)) : "memory");
}

// Value `index` of another part of this row, written by that part's block in this launch.
DEV bool take_partial(const Params& p, u64 address, u32 tag, Wait& wait, float* out) {
  u64 got;
  while ((u32)((got = ld_partial(address)) >> 32) != tag) {
    if (expired(wait, p, REASON_SPLIT, p.rank, tag)) return false;
  }
  *out = __uint_as_float((u32)got);
  return true;
}
#endif

extern "C" __global__ void __launch_bounds__(BLOCK, 1) allreduce(const __grid_constant__ Launch launch) {
  const Params& p = launch.rank[VIRTUAL > 1 ? blockIdx.y : 0];
  const int tid = threadIdx.x;
  const bool worker = tid < THREADS;
#if PDL
  warm(p);
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  u32 tag = 0u, calls = 0u, prior = 0u;
  u64 area = 0u;
  bool failed = false;
  Wait wait = {0u, 0ull};
#if LINE_WORDS == 4
  u32 used = 0u;
#endif

#if PATTERN
  __shared__ float s_leaf[SPLIT * PART_LEAVES];
#if QUANT == 2
  __shared__ float s_most[THREADS / 32];
  __shared__ float s_part[SPLIT];
#endif
#if LINE_WORDS == 3
  __shared__ u32 s_word[PART_WORDS];
#endif
#endif
#if SHOTS == 2
  __shared__ u32 s_own[SEGMENT * LINE_WORDS];
#endif

  const u32 tiles = tile_count(p);
  for (u32 index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Tile t = locate(p, index);
    const bool first = index == blockIdx.x;
    u32 line[VEC];
    bool valid[VEC];
    u32 word[VEC][LINE_WORDS];
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      u32 i = v * THREADS + tid;
      line[v] = t.line + i;
      valid[v] = worker && i < t.count;
#pragma unroll
      for (int w = 0; w < LINE_WORDS; ++w) word[v][w] = 0u;
      if (valid[v]) load_row<LINE_WORDS>(p.input + row_bytes(t.row), t.word + i * LINE_WORDS, row_elements(p), word[v]);
    }
    if (first) {
      // Behind the loads of the row: whatever waits for the state does not hold those up.
      u32 state[4];
      ld_state(p.state, state);
      tag = state[0] + 1u;
      calls = state[2];
      failed = state[1] != 0u;
#if LINE_WORDS == 4
      area = p.sentinel_offset + (calls % GENERATIONS) * p.sentinel_generation;
      used = calls > 1u ? ld_u32_gpu(&p.state->used[(calls - 2u) % GENERATIONS]) : 0u;
#else
      area = p.tagged_offset + (tag & 1u) * p.tagged_generation;
#endif
    }
#if PATTERN
    u32 residual[EV][EW], weight[EV][EW];
    u32 at[EV];
    bool inside[EV];
#pragma unroll
    for (int v = 0; v < EV; ++v) {
      u32 i = (v * THREADS + tid) * EW;
      at[v] = t.word + i;
      inside[v] = worker && i < PART_WORDS && at[v] < ROW_WORDS;
#pragma unroll
      for (int w = 0; w < EW; ++w) residual[v][w] = weight[v][w] = 0u;
    }
    auto load_others = [&]() {
#pragma unroll
      for (int v = 0; v < EV; ++v) {
        if (inside[v] && p.residual) load_row<EW>(p.residual + row_bytes(t.row), at[v], HIDDEN, residual[v]);
        if (inside[v] && EV * EW <= 16) load_row<EW>(p.weight, at[v], HIDDEN, weight[v]);
      }
    };
#if WORLD == 1
    load_others();
#endif
#endif

#if WORLD > 1
    // The residual and the weight are wanted only when the peers' lines are there, so their loads go behind those.
    auto meanwhile = [&]() {
#if PATTERN
      load_others();
#endif
#if LINE_WORDS == 4
      if (first && REARM_EARLY(p)) rearm(p, calls, used);
#endif
    };
#if SHOTS == 2
    auto between = [&]() {
#if LINE_WORDS == 4
      if (first) rearm(p, calls, used);
#endif
    };
#endif
    if (worker) {
#if LINE_WORDS == 4
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
#pragma unroll
        for (int w = 0; w < LINE_WORDS; ++w) word[v][w] = clean(word[v][w]);
      }
#endif
#if SHOTS == 1
      auto send = [&](int v) {
        if (LAG && valid[v]) push(p, area, line[v], word[v], tag);
      };
      if (!LAG && !failed) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          if (valid[v]) push(p, area, line[v], word[v], tag);
        }
      }
      released(first);
      if (!failed) failed = !gather<VEC, LAG>(p, area, line, valid, word, word, tag, wait, send, meanwhile);
#else
      u32 owner[VEC];
      if (!failed) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          owner[v] = (line[v] - t.line) / SEGMENT;
          if (valid[v] && owner[v] != p.rank) push(p, area, line[v], word[v], tag);
        }
      }
      released(first);
      if (!failed) {
        u32 mine[SEGMENT_VEC];
        bool held[SEGMENT_VEC];
        u32 part[SEGMENT_VEC][LINE_WORDS];
#pragma unroll
        for (int v = 0; v < SEGMENT_VEC; ++v) {
          u32 j = v * THREADS + tid, i = p.rank * SEGMENT + j;
          mine[v] = t.line + i;
          held[v] = j < SEGMENT && i < t.count;
#pragma unroll
          for (int w = 0; w < LINE_WORDS; ++w) part[v][w] = 0u;
          if (held[v]) {
            load_row<LINE_WORDS>(p.input + row_bytes(t.row), t.word + i * LINE_WORDS, row_elements(p), part[v]);
#pragma unroll
            for (int w = 0; w < LINE_WORDS; ++w) part[v][w] = clean(part[v][w]);
          }
        }
        failed = !gather<SEGMENT_VEC, 0>(p, area, mine, held, part, part, tag, wait, [](int) {}, meanwhile);
#pragma unroll
        for (int v = 0; v < SEGMENT_VEC; ++v) {
          if (held[v] && !failed) {
#pragma unroll
            for (int w = 0; w < LINE_WORDS; ++w) {
              part[v][w] = clean(part[v][w]);
              s_own[(v * THREADS + tid) * LINE_WORDS + w] = part[v][w];
            }
            push(p, area, mine[v], part[v], tag);
          }
        }
        bool remote[VEC];
#pragma unroll
        for (int v = 0; v < VEC; ++v) remote[v] = valid[v] && owner[v] != p.rank;
        if (!failed) failed = !collect<VEC>(p, area, line, owner, remote, word, tag, wait, between);
      }
      BAR_SYNC(3, THREADS);
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        u32 j = line[v] - t.line - p.rank * SEGMENT;
        if (valid[v] && j < SEGMENT) {
#pragma unroll
          for (int w = 0; w < LINE_WORDS; ++w) word[v][w] = s_own[j * LINE_WORDS + w];
        }
      }
#endif
    } else if (first) {
      if (tid < THREADS + 32) {
        failed = !serve(p, tag, failed, prior);
      }
#if LINE_WORDS == 4
      if (blockIdx.x == 0 && tid == THREADS + 32) {
        // Orders the re-arming of the call before this one ahead of the push of the call after this one.
        asm volatile("fence.acq_rel.sys;" ::: "memory");
      }
#endif
    }
#endif

#if PATTERN
#if LINE_WORDS == 3
    if (worker) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        u32 i = v * THREADS + tid;
        if (i < TILE_LINES) {
#pragma unroll
          for (int w = 0; w < LINE_WORDS; ++w) s_word[i * LINE_WORDS + w] = word[v][w];
        }
      }
      BAR_SYNC(4, THREADS);
    }
    u32 value[EV][EW];
#pragma unroll
    for (int v = 0; v < EV; ++v) {
      u32 i = (v * THREADS + tid) * EW;
#pragma unroll
      for (int w = 0; w < EW; ++w) value[v][w] = worker && i < PART_WORDS ? s_word[i + w] : 0u;
    }
#else
#define value word
#endif
    if (worker) {
#pragma unroll
      for (int v = 0; v < EV; ++v) {
        float leaf = add_residual(value[v], residual[v]);
        u32 l = (v * THREADS + tid) * EW / LEAF_WORDS;
        if ((tid & (LEAF_WORDS / EW - 1)) == 0 && l < PART_LEAVES) {
          s_leaf[t.part * PART_LEAVES + l] = leaf;
#if SPLIT > 1
          if (!failed) st_partial(p.partials + 8ull * (t.row * (SPLIT * PART_LEAVES + SPLIT) + t.part * PART_LEAVES + l), leaf, tag);
#endif
        }
        if (inside[v] && EV * EW > 16) load_row<EW>(p.weight, at[v], HIDDEN, weight[v]);
      }
#if SPLIT > 1
      for (u32 l = tid; l < LEAVES; l += THREADS) {
        if (l / PART_LEAVES == t.part || failed) continue;
        failed = !take_partial(p, p.partials + 8ull * (t.row * (SPLIT * PART_LEAVES + SPLIT) + l), tag, wait, &s_leaf[l]);
      }
#endif
    }
#endif

    failed = join_any(failed, BLOCK);
#if WORLD > 1
    if (first && tid == THREADS) advance(p, tag, calls, prior);
#if LINE_WORDS == 4
    if (first && worker && !failed && REARM_LATE(p)) rearm(p, calls, used);
#endif
#endif

#if PATTERN
    if (worker) {
      const float scale = row_scale(p, s_leaf);
      float y[EV][EW][EPW];
#pragma unroll
      for (int v = 0; v < EV; ++v) {
        if (failed) {
          poison(p, t, at[v], inside[v]);
          continue;
        }
        normalise(value[v], weight[v], scale, y[v]);
        if (inside[v]) {
          if (p.residual_out) store_row<EW>(p.residual_out + row_bytes(t.row), at[v], HIDDEN, value[v]);
          if (NORM_OUT) store_norm(p, t, at[v], y[v]);
        }
#if QUANT == 1
        if (inside[v]) store_e4m3(p, t, at[v], y[v], __fdiv_rn(1.0f, p.scale[0]));
#elif QUANT == 3
        store_nvfp4(p, t, at[v], y[v], p.scale[0], inside[v]);
#endif
      }
#if QUANT == 2
      if (!failed) {
        float most = 0.0f;
#pragma unroll
        for (int v = 0; v < EV; ++v) {
#pragma unroll
          for (int k = 0; k < EW * EPW; ++k) {
            if (inside[v]) most = fmaxf(most, absolute(y[v][k / EPW][k % EPW]));
          }
        }
#pragma unroll
        for (int step = 1; step < 32; step *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
        if ((tid & 31) == 0) s_most[tid / 32] = most;
        BAR_SYNC(3, THREADS);
        most = s_most[0];
#pragma unroll
        for (int k = 1; k < THREADS / 32; ++k) most = fmaxf(most, s_most[k]);
#if SPLIT > 1
        const u64 others = p.partials + 8ull * (t.row * (SPLIT * PART_LEAVES + SPLIT) + SPLIT * PART_LEAVES);
        bool missed = false;
        if (tid == 0) st_partial(others + 8ull * t.part, most, tag);
        if (tid < SPLIT) missed = !take_partial(p, others + 8ull * tid, tag, wait, &s_part[tid]);
        failed = join_any(missed, THREADS);
#pragma unroll
        for (int k = 0; k < SPLIT; ++k) most = fmaxf(most, s_part[k]);
#endif
        // 1 / (448 * 512): the smallest scale, so that a row of zeros does not divide by zero.
        const float row = fmaxf(__fdiv_rn(most, 448.0f), 4.3596540e-06f);
        if (tid == 0 && t.part == 0) ((float*)p.scale_out)[t.row] = row;
        const float inverse = __fdiv_rn(1.0f, row);
#pragma unroll
        for (int v = 0; v < EV; ++v) {
          if (inside[v]) store_e4m3(p, t, at[v], y[v], inverse);
          if (failed) poison(p, t, at[v], inside[v]);
        }
      }
#endif
    }
#undef value
#else
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
#pragma unroll
      for (int w = 0; w < LINE_WORDS; ++w) word[v][w] = failed ? NAN_WORD : word[v][w];
      if (valid[v]) store_row<LINE_WORDS>(p.out, t.word + (v * THREADS + tid) * LINE_WORDS, p.rows, word[v]);
    }
#endif
    // Shared memory is written again in the next turn.
    if (index + gridDim.x < tiles) BAR_SYNC(5, BLOCK);
  }
}
