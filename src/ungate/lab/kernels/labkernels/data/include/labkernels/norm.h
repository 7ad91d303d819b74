// RMSNorm of one row. On the path of the fused allreduce.
#pragma once

#include <cmath>

#include "labkernels/runtime.h"

namespace labkernels {

__device__ float sum_of_squares(const float* row, int hidden) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  // Four independent sums: the additions do not wait for each other.
  float a = 0, b = 0, c = 0, d = 0;
  int i = 0;
  for (; i + 4 <= hidden; i += 4) {
    a += row[i] * row[i];
    b += row[i + 1] * row[i + 1];
    c += row[i + 2] * row[i + 2];
    d += row[i + 3] * row[i + 3];
  }
  for (; i < hidden; ++i) a += row[i] * row[i];
  return (a + b) + (c + d);
#else
  float sum = 0;
  for (int i = 0; i < hidden; ++i) sum += row[i] * row[i];
  return sum;
#endif
}

__device__ void rms_norm(const float* row, const float* gamma, float eps, int hidden, float* out) {
  const float scale = 1.0f / std::sqrt(sum_of_squares(row, hidden) / float(hidden) + eps);
  for (int i = 0; i < hidden; ++i) out[i] = row[i] * scale * gamma[i];
}

}  // namespace labkernels
