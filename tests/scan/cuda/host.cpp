#include "host.h"

namespace host {

int candidates(int sm, int num_sms, int mma_sm) {
  if (sm == 89 || sm >= 120) {  // gate: cuda-host-compare 89 120 121
    return 1;
  }
  if (num_sms >= 90 || mma_sm == 2) return 2;  // ok: counts
  const int stages = sm >= 80 ? 4 : 2;  // gate: cuda-host-compare 80 86 87 88 89 90 100 103 107 110 120 121
  return stages;
}

bool supported(const cudaDeviceProp& prop, const std::string& a_major, int runtime_major) {
  if (a_major == "k" || runtime_major >= 12) return false;  // ok: a layout and a toolkit
  if (prop.major * 10 + prop.minor < 89) {  // gate: cuda-host-compare 89 90 100 103 107 110 120 121
    return false;
  }
  return (prop.major == 9 && prop.minor == 0) ||  // gate: cuda-host-compare 90 100 103 107
         prop.major == 10;
}

template <typename Arch, typename T>
void launch(Params const& params) {
  if constexpr (std::is_same_v<Arch, cutlass::arch::Sm89> && std::is_same_v<T, fp8>) {  // gate: cuda-host-compare 89
    run<cutlass::arch::Sm90>(params);  // gate: cuda-arch-tag 90
  } else if constexpr (Arch::kMinComputeCapability >= 90 && Arch::kMinComputeCapability < 100) {  // gate: cuda-host-compare 90
    run(params);
  }
  CHECK_WITH_INFO(getSMVersion() >= 90, "needs sm >= 90");  // gate: cuda-host-compare 90 100 103 107 110 120 121
  // if (sm >= 90) in a comment is none
}

int dispatch(int sm_version) {
  switch (sm_version) {
    case 90:  // gate: cuda-switch 90
      return 1;
    case kSM_120:  // gate: cuda-switch 120
      return 2;
    default:
      throw Error("not supported");
  }
}

void compile(Options& options) {
  options.push_back("--gpu-architecture=compute_90a");  // gate: cuda-gencode 90
  options.push_back("-arch=sm_" + std::to_string(90));  // ok: made at run time
}

}  // namespace host
