// How a message is cut: rows into parts, parts into lines, lines over threads.
// The position of a line in the slot depends on the message alone, never on threads, parts or grid.
#pragma once
#include "control.cuh"

#define PEERS (WORLD - 1)
#define UP(a, b) (((a) + (b) - 1) / (b))

#if PATTERN
#define ROW_WORDS UP(HIDDEN, EPW)
#define ROW_LINES UP(ROW_WORDS, LINE_WORDS)
// A leaf of the sum of squares is 64 words, so a part is a whole number of leaves.
#define LEAF_WORDS 64
#define GRAIN (LINE_WORDS == 3 ? 192 : LEAF_WORDS)
#define PART_WORDS (UP(UP(ROW_WORDS, SPLIT), GRAIN) * GRAIN)
#define TILE_LINES (PART_WORDS / LINE_WORDS)
#define VEC UP(TILE_LINES, THREADS)
#define LEAVES UP(ROW_WORDS, LEAF_WORDS)
#define PART_LEAVES (PART_WORDS / LEAF_WORDS)
// The epilogue works on power-of-two lines, so that its sum does not depend on the line format.
#define EPILOGUE_WORDS (LINE_WORDS == 3 ? 4 : LINE_WORDS)
#define EPILOGUE_VEC UP(PART_WORDS / EPILOGUE_WORDS, THREADS)
#else
#define TILE_LINES (THREADS * VEC)
#endif

#define SEGMENT UP(TILE_LINES, WORLD)
#define SEGMENT_VEC UP(SEGMENT, THREADS)

struct Tile {
  u32 row;
  u32 part;
  u32 line;   // first line in the slot
  u32 count;  // lines of this tile
  u32 word;   // first word, counted from the row's start (the message's start for the plain operation)
};

DEV Tile locate(const Params& p, u32 index) {
  Tile t;
#if PATTERN
  t.row = index / SPLIT;
  t.part = index % SPLIT;
  u32 begin = t.part * TILE_LINES;
  t.line = t.row * ROW_LINES + begin;
  t.count = begin >= ROW_LINES ? 0u : (ROW_LINES - begin < TILE_LINES ? ROW_LINES - begin : TILE_LINES);
  t.word = t.part * PART_WORDS;
#else
  t.row = 0;
  t.part = 0;
  t.line = index * TILE_LINES;
  t.count = p.lines - t.line < TILE_LINES ? p.lines - t.line : TILE_LINES;
  t.word = t.line * LINE_WORDS;
#endif
  return t;
}

DEV u32 tile_count(const Params& p) {
#if PATTERN
  return p.rows * SPLIT;
#else
  return UP(p.lines, TILE_LINES);
#endif
}

DEV u64 row_bytes(u32 row) {
#if PATTERN
  return (u64)row * (HIDDEN * (4 / EPW));
#else
  return 0;
#endif
}

DEV u32 row_elements(const Params& p) {
#if PATTERN
  return HIDDEN;
#else
  return p.rows;
#endif
}

// An aligned row is a multiple of 16 bytes, so lines of 8 and 16 bytes never reach over its end.
#define WHOLE(count) (PATTERN && (count) != 3)

// COUNT words from word `at` of a row of `elements` elements; what lies beyond the row reads as zero.
template <int COUNT>
DEV void load_row(const u8* row, u32 at, u32 elements, u32* out) {
#if ALIGNED
  if (WHOLE(COUNT) || (at + COUNT) * EPW <= elements) {
    const u8* from = row + 4ull * at;
    if (COUNT == 2) {
      asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(out[0]), "=r"(out[1]) : "l"(from) : "memory");
    } else if (COUNT == 4) {
      asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "l"(from) : "memory");
    } else {
#pragma unroll
      for (int w = 0; w < COUNT; ++w) asm volatile("ld.global.b32 %0, [%1];" : "=r"(out[w]) : "l"(from + 4 * w) : "memory");
    }
    return;
  }
#endif
#pragma unroll
  for (int w = 0; w < COUNT; ++w) {
    u32 element = (at + w) * EPW;
#if EPW == 1
    out[w] = element < elements ? ((const u32*)row)[element] : 0u;
#else
    u32 low = element < elements ? ((const u16*)row)[element] : 0u;
    u32 high = element + 1 < elements ? ((const u16*)row)[element + 1] : 0u;
    out[w] = low | (high << 16);
#endif
  }
}

template <int COUNT>
DEV void store_row(u8* row, u32 at, u32 elements, const u32* in) {
#if ALIGNED
  if (WHOLE(COUNT) || (at + COUNT) * EPW <= elements) {
    u8* to = row + 4ull * at;
    if (COUNT == 2) {
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(in[0]), "r"(in[1]) : "memory");
    } else if (COUNT == 4) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3])
                   : "memory");
    } else {
#pragma unroll
      for (int w = 0; w < COUNT; ++w) ((u32*)to)[w] = in[w];
    }
    return;
  }
#endif
#pragma unroll
  for (int w = 0; w < COUNT; ++w) {
    u32 element = (at + w) * EPW;
#if EPW == 1
    if (element < elements) ((u32*)row)[element] = in[w];
#else
    if (element < elements) ((u16*)row)[element] = (u16)in[w];
    if (element + 1 < elements) ((u16*)row)[element + 1] = (u16)(in[w] >> 16);
#endif
  }
}
