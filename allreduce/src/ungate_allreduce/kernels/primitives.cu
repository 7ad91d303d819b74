// What a transfer through host memory is made of, one kernel each: for the formula's floor and for self-tests.
typedef unsigned int u32;
typedef unsigned long long u64;

struct Args {
  u64 a;
  u64 b;
  u64 sink;
  u32 count;
  u32 limit_ns;
};

static __device__ __forceinline__ u64 global_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

static __device__ __forceinline__ u32 ld32(u64 address) {
  u32 value;
  asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

static __device__ __forceinline__ void st32(u64 address, u32 value) {
  asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

static __device__ __forceinline__ void ld128(u64 address, u32* v) {
  asm volatile("ld.relaxed.sys.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "l"(address) : "memory");
}

static __device__ __forceinline__ void st128(u64 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

extern "C" __global__ void empty(const __grid_constant__ Args p) {}

// `count` loads, each address depending on the value before (the memory holds zeros).
extern "C" __global__ void chain(const __grid_constant__ Args p) {
  u64 at = p.a;
  for (u32 i = 0; i < p.count; ++i) at = p.a + ld32(at);
  if (at != p.a) st32(p.sink, 1);
}

extern "C" __global__ void store_fence(const __grid_constant__ Args p) {
  for (u32 i = 0; i < p.count; ++i) {
    st32(p.a, i);
    asm volatile("fence.acq_rel.sys;" ::: "memory");
  }
}

// Two blocks (or, with `b` pointing at a peer's flag, two GPUs): `count` round trips, each side answers the other.
extern "C" __global__ void ping_pong(const __grid_constant__ Args p) {
  const bool second = blockIdx.x == 1;
  u64 mine = second ? p.b : p.a, theirs = second ? p.a : p.b;
  u64 begin = global_ns();
  for (u32 i = 1; i <= p.count; ++i) {
    if (!second) st32(mine, i);
    while (ld32(theirs) != i) {
      if (global_ns() - begin > p.limit_ns) {
        st32(p.sink, 1);
        return;
      }
    }
    if (second) st32(mine, i);
  }
}

extern "C" __global__ void __launch_bounds__(512) stream_read(const __grid_constant__ Args p) {
  u32 all = 0;
  const u32 step = gridDim.x * blockDim.x;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += 4 * step) {
    u32 v[4][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      v[k][0] = v[k][1] = v[k][2] = v[k][3] = 0;
      if (i + k * step < p.count) ld128(p.a + 16ull * (i + k * step), v[k]);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) all |= v[k][0] ^ v[k][1] ^ v[k][2] ^ v[k][3];
  }
  if (all == 0x12345678u) st32(p.sink, all);
}

extern "C" __global__ void __launch_bounds__(512) stream_write(const __grid_constant__ Args p) {
  const u32 step = gridDim.x * blockDim.x;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) st128(p.a + 16ull * i, i, i, i, i);
  if (p.limit_ns) asm volatile("fence.acq_rel.sys;" ::: "memory");
}

// Spins for `limit_ns`.
extern "C" __global__ void spin(const __grid_constant__ Args p) {
  u64 until = global_ns() + p.limit_ns;
  while (global_ns() < until) {
  }
}

// Block 0 writes lines whose four words are equal, the others read a peer's: a line with unequal words was torn.
// sink: {observed changes, torn lines}.
extern "C" __global__ void __launch_bounds__(256) tear(const __grid_constant__ Args p) {
  const u64 begin = global_ns();
  u64 changes = 0, torn = 0;
  if (blockIdx.x == 0) {
    for (u32 n = 1;; ++n) {
      for (u32 i = threadIdx.x; i < p.count; i += blockDim.x) st128(p.a + 16ull * i, n, n, n, n);
      if (global_ns() - begin > p.limit_ns) break;
    }
    return;
  }
  u32 last = 0;
  const u32 i = ((blockIdx.x - 1) * blockDim.x + threadIdx.x) % p.count;
  while (global_ns() - begin < p.limit_ns) {
    u32 v[4];
    ld128(p.b + 16ull * i, v);
    if (v[0] != last) ++changes;
    if (v[0] != v[1] || v[0] != v[2] || v[0] != v[3]) ++torn;
    last = v[0];
  }
  atomicAdd((u64*)p.sink, changes);
  atomicAdd((u64*)p.sink + 1, torn);
}
