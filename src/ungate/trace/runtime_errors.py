"""Error texts that no package writes: those of the CUDA runtime and driver, of ptxas and nvcc, of kernels themselves.

What each means is told in own words after the CUDA Runtime API's ``cudaError`` and the CUDA C++ Programming Guide. The
texts are those of ``cudaGetErrorString`` and of the compilers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Report", "known"]


@dataclass(frozen=True, slots=True)
class Report:
    """A text of the runtime. ``images`` tells that the binaries at hand decide about it; ``steps`` are commands."""

    name: str
    pattern: re.Pattern[str]
    means: str
    steps: tuple[str, ...]
    images: bool = False


def _text(name: str, pattern: str, means: str, *steps: str, images: bool = False) -> Report:
    return Report(name, re.compile(pattern, re.IGNORECASE), means, steps, images)


_LATE = (
    "Kernels run apart from the program, so that the line that reports this is often not the one that caused it: run "
    "once more with CUDA_LAUNCH_BLOCKING=1"
)
_SANITIZE = "Have the access named: compute-sanitizer --tool memcheck COMMAND"
_CACHES = "See what the JIT caches hold, and for which architecture: ungate cache ls"
_HOST = "See driver, toolkit and GPU together: ungate doctor"

_KNOWN: tuple[Report, ...] = (
    _text(
        "cudaErrorNoKernelImageForDevice",
        r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU",
        "the module that was launched holds neither machine code that this GPU can run nor PTX that the driver could "
        "compile for it: it was built for other architectures, or for an architecture-specific one (suffix a) that "
        "is not this GPU's",
        _CACHES,
        "Build what is compiled here for this GPU: ungate build FEATURE --target TARGET",
        images=True,
    ),
    _text(
        "cudaErrorInvalidDeviceFunction",
        r"invalid device function|cudaErrorInvalidDeviceFunction",
        "the kernel that was asked for is not in the module that was loaded for this GPU: the binary lacks it for this "
        "architecture, or a stale build of another architecture or version was loaded",
        _CACHES,
        images=True,
    ),
    _text(
        "cudaErrorUnsupportedPtxVersion",
        r"PTX was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion|CUDA_ERROR_UNSUPPORTED_PTX",
        "the binary has no machine code for this GPU, so that the driver had to compile its PTX, and that PTX was "
        "written by a toolkit newer than the driver knows: update the driver, or build with a toolkit that is not "
        "newer than it",
        _HOST,
        images=True,
    ),
    _text(
        "cudaErrorInvalidKernelImage",
        r"device kernel image is invalid|cudaErrorInvalidKernelImage|CUDA_ERROR_INVALID_IMAGE",
        "the driver cannot read the module: it is damaged, or of a format newer than the driver",
        _CACHES,
        _HOST,
        images=True,
    ),
    _text(
        "cudaErrorInvalidPtx",
        r"PTX JIT compilation failed|cudaErrorInvalidPtx|CUDA_ERROR_INVALID_PTX|PTX JIT compiler library",
        "the driver tried to compile PTX for this GPU and could not: it uses what this architecture does not have, "
        "or the driver lacks its compiler",
        _HOST,
        images=True,
    ),
    _text(
        "cudaErrorIllegalInstruction",
        r"illegal instruction|cudaErrorIllegalInstruction|CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "the GPU met an instruction that it does not have or that is not allowed in this form: code for another "
        "architecture's instructions (wgmma, tcgen05, cluster launch) was let through, or a trap that the kernel "
        "itself sets where its architecture was compiled out",
        "See whether the kernel may run here at all: ungate check FEATURE --target TARGET",
        _LATE,
    ),
    _text(
        "cudaErrorLaunchOutOfResources",
        r"too many resources requested|cudaErrorLaunchOutOfResources|CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        "a launch asked for more registers, threads or shared memory than a multiprocessor of this GPU has; tile sizes "
        "chosen for data-centre GPUs (up to 227 KB of shared memory per block) do not fit those with 99 KB",
        "See what the kernels ask for: ungate check FEATURE --target TARGET",
    ),
    _text(
        "cudaErrorInvalidClusterSize",
        r"cluster misconfiguration|cluster target block not present|cudaErrorInvalidClusterSize",
        "a launch asked for a cluster of thread blocks that this GPU cannot place: consumer GPUs of the newest "
        "architectures allow smaller clusters or none",
        "See whether the kernel may run here at all: ungate check FEATURE --target TARGET",
    ),
    _text(
        "cudaErrorInvalidConfiguration",
        r"invalid configuration argument|cudaErrorInvalidConfiguration",
        "a launch asked for a grid, block or amount of shared memory that this GPU does not allow, or an empty grid",
        _LATE,
    ),
    _text(
        "cudaErrorIllegalAddress",
        r"illegal memory access|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS",
        "a kernel read or wrote memory that is not mapped for it; with several GPUs also a peer's memory without peer "
        "access. It says nothing about the architecture by itself",
        _LATE,
        _SANITIZE,
        "See whether the GPUs may map each other's memory: ungate doctor",
    ),
    _text(
        "cudaErrorMisalignedAddress",
        r"misaligned address|cudaErrorMisalignedAddress",
        "a kernel used an address that is not a multiple of the size it reads or writes at once",
        _LATE,
        _SANITIZE,
    ),
    _text(
        "cudaErrorLaunchFailure",
        r"unspecified launch failure|cudaErrorLaunchFailure|CUDA_ERROR_LAUNCH_FAILED",
        "a kernel failed while running in a way the GPU did not name, most often a wrong address",
        _LATE,
        _SANITIZE,
    ),
    _text(
        "cudaErrorPeerAccessUnsupported",
        r"peer access is not supported|cudaErrorPeerAccessUnsupported",
        "the driver does not let these two GPUs map each other's memory, so that nothing that polls or copies through "
        "a peer pointer can work; no edit of the code changes this",
        "See the matrix and the reason: ungate doctor",
        "Measure what does without it: ungate-allreduce tune",
    ),
    _text(
        "cudaErrorInsufficientDriver",
        r"driver version is insufficient|cudaErrorInsufficientDriver",
        "the CUDA runtime in the program is newer than the driver supports",
        _HOST,
    ),
    _text(
        "cudaErrorLaunchTimeout",
        r"launch timed out and was terminated|cudaErrorLaunchTimeout",
        "a kernel ran longer than the display driver allows, or waits for a peer that never answers",
        "See whether the GPUs reach each other: ungate doctor",
    ),
    _text(
        "cudaErrorCompatNotSupportedOnDevice",
        r"forward compatibility was attempted on non.?supported|cudaErrorCompatNotSupportedOnDevice",
        "a compatibility driver library was loaded in front of the installed one, and this GPU is not one it serves",
        _HOST,
    ),
    _text(
        "cudaErrorNotSupported",
        r"CUDA error: operation not supported|cudaErrorNotSupported",
        "the driver refuses the operation on this GPU or in this set-up (a virtual machine, a container, a PCIe path): "
        "multicast, peer mappings and some memory handles are refused so",
        _HOST,
        _LATE,
    ),
    _text(
        "cudaErrorUnknown",
        r"\bunknown error\b|cudaErrorUnknown|CUDA_ERROR_UNKNOWN",
        "the driver gave no reason; after a hibernation, a driver update without a reboot, or an earlier fault of the "
        "GPU every call ends so",
        "See what the kernel logged: dmesg | grep -i -e nvrm -e xid",
        _HOST,
    ),
    _text(
        "CUTLASS: arch conditional",
        r"Arch conditional MMA instruction used without targeting|Attempting to use .*without .*(ENABLED|SUPPORTED)",
        "the kernel's body was compiled out for the architecture it was built for (an architecture-specific macro was "
        "not defined), and what is left stops or does nothing: the launch is let in above and hollow below",
        "See which kernels are hollow: ungate build FEATURE --target TARGET",
    ),
    _text(
        "PyTorch: GPU not in its list",
        r"[^\n]*is not compatible with the current PyTorch installation\.?|"
        r"[^\n]*current PyTorch install(?:ation)? supports CUDA capabilit[^\n]*",
        "PyTorch compares the GPU with the architectures that it was built for, and this one is not among them: its "
        "own kernels will find no image. Packages beside it may hold code for the GPU all the same",
        "Install a build of PyTorch for a toolkit that knows the GPU (CUDA 12.8 or newer for sm_120)",
        _HOST,
        images=True,
    ),
    _text(
        "Triton: out of resources",
        r"out of resources?: ?(?:shared memory|registers|threads|tensor memory)|OutOfResources",
        "Triton compiled the kernel for this GPU and it asks for more than a thread block may have here, of shared "
        "memory most often: tile sizes and stages were chosen for GPUs with up to 227 KB a block, consumer GPUs have "
        "99 KB. No gate holds the feature back, and opening one does not help: it needs smaller tiles or fewer stages",
        "See whether the package has a table of tile sizes for this GPU: ungate scan DIST --target TARGET",
    ),
    _text(
        "ptxas: unknown architecture",
        r"Value '[^']*' is not defined for option '?gpu-name'?",
        "the assembler that ran does not know this architecture. It is older than the GPU, and often not the "
        "toolkit's: Triton brings one of its own, and a toolkit that is installed beside it changes nothing",
        "Have Triton run the toolkit's where that one knows TARGET: "
        "export TRITON_PTXAS_PATH=$(command -v ptxas) TRITON_PTXAS_BLACKWELL_PATH=$(command -v ptxas)",
        "See which toolkit is found and what it compiles for: ungate doctor",
        "See the lists in the environment: env | grep ARCH_LIST",
    ),
    _text(
        "nvcc: unsupported architecture",
        r"Unsupported gpu architecture|is not defined for option '?gpu-architecture'?|Unknown CUDA Architecture",
        "this toolkit does not know the architecture it was asked to compile for: it is older than the GPU, or a list "
        "in TORCH_CUDA_ARCH_LIST or FLASHINFER_CUDA_ARCH_LIST names one it never knew or no longer knows",
        "See what this nvcc compiles for: ungate doctor",
        "See the lists in the environment: env | grep ARCH_LIST",
    ),
    _text(
        "ptxas: not on this target",
        r"(Instruction|Feature|Modifier|Type) '[^']+'.{0,40} not supported on \.target|requires \.target|"
        r"not supported on \.target",
        "inline assembly asks for an instruction that the architecture it is compiled for does not have: opening the "
        "gate above does not help, the code needs another body for it",
        "See every such instruction before building: ungate check FEATURE --target TARGET",
    ),
    _text(
        "ptxas: shared memory",
        r"uses too much shared data|ptxas error.*shared",
        "a kernel's static shared memory is larger than the architecture it is compiled for has",
        "See what the kernels ask for: ungate check FEATURE --target TARGET",
    ),
)


def known(text: str) -> Report | None:
    """The runtime's error that a text names, None where it names none."""
    return next((error for error in _KNOWN if error.pattern.search(text)), None)
