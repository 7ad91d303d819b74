// Host side of the fused one-shot allreduce: checks the arguments and launches.
#include "labkernels/comm/allreduce_fusion.h"

using namespace labkernels;

LAB_HOST int lamport_initialize(FusionParams* params) {
  if (params->world_size < 1 || params->world_size > kMaxRanks) return kBadWorld;
  lab_kernel_lamport_initialize(params);
  return kOk;
}

LAB_HOST int allreduce_fusion(FusionParams* params) {
  if (params->world_size < 1 || params->world_size > kMaxRanks) return kBadWorld;
  if (int64_t(params->tokens) * params->hidden > params->capacity) return kTooLarge;
  params->status = kOk;
  lab_kernel_lamport_one_shot_allreduce_norm(params);
  return params->status;
}
