// Host side of the two-shot allreduce: checks the arguments and launches both kernels.
#include "labkernels/comm/allreduce.h"

using namespace labkernels;

LAB_HOST int allreduce_two_shot(TwoShotParams* params) {
  if (params->world_size < 1 || params->world_size > kMaxRanks) return kBadWorld;
  if (params->count > params->capacity) return kTooLarge;
  params->status = kOk;
  lab_kernel_two_shot_reduce(params);
  if (params->status == kOk) lab_kernel_two_shot_gather(params);
  return params->status;
}
