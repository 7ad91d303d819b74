// A line is 16 bytes of the slot. LINE_WORDS says how it proves that it has arrived:
//   2 (LL8)  two 8-byte units, each data | tag << 32: needs 8-byte single-copy atomicity, which PTX gives;
//   3 (F12)  three data words and one tag: needs 16-byte single-copy atomicity, so only after the tear test;
//   4 (F16)  four data words, each different from the sentinel: needs 4-byte atomicity and re-arming.
// PTX ISA, memory consistency model: a vector access is a set of scalar accesses in unspecified order.
#pragma once
#include "numeric.cuh"

#define SENTINEL 0xffffffffu
// The sentinel is a NaN in every dtype; a payload word that equals it is replaced by another NaN pair.
#define SENTINEL_SUBSTITUTE 0xfffeffffu

DEV void st_tagged(u64 address, u32 first, u32 second, u32 tag) {
  u64 a = (u64)first | ((u64)tag << 32), b = (u64)second | ((u64)tag << 32);
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(address), "l"(a), "l"(b) : "memory");
}

DEV void ld_tagged(u64 address, u32* raw) {
  u64 a, b;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(address) : "memory");
  raw[0] = (u32)a;
  raw[1] = (u32)(a >> 32);
  raw[2] = (u32)b;
  raw[3] = (u32)(b >> 32);
}

DEV void st_words(u64 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

DEV void ld_words(u64 address, u32* raw) {
  asm volatile("ld.relaxed.sys.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(raw[0]), "=r"(raw[1]), "=r"(raw[2]), "=r"(raw[3]) : "l"(address) : "memory");
}

DEV u32 clean(u32 word) {
#if LINE_WORDS == 4
  return word == SENTINEL ? SENTINEL_SUBSTITUTE : word;
#else
  return word;
#endif
}

DEV void st_line(u64 address, const u32* word, u32 tag) {
#if LINE_WORDS == 2
  st_tagged(address, word[0], word[1], tag);
#elif LINE_WORDS == 3
  st_words(address, word[0], word[1], word[2], tag);
#else
  st_words(address, word[0], word[1], word[2], word[3]);
#endif
}

DEV void ld_line(u64 address, u32* raw) {
#if LINE_WORDS == 2
  ld_tagged(address, raw);
#else
  ld_words(address, raw);
#endif
}

DEV bool arrived(const u32* raw, u32 tag) {
#if LINE_WORDS == 2
  return raw[1] == tag && raw[3] == tag;
#elif LINE_WORDS == 3
  return raw[3] == tag;
#else
  return raw[0] != SENTINEL && raw[1] != SENTINEL && raw[2] != SENTINEL && raw[3] != SENTINEL;
#endif
}

DEV u32 payload(const u32* raw, int index) {
#if LINE_WORDS == 2
  return raw[2 * index];
#else
  return raw[index];
#endif
}
