from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ungate.build import opcodes, sass
from ungate.build.cubins import archs, functions
from ungate.build.opcodes import Instruction
from ungate.build.sass import Effect, Image
from ungate.errors import Refusal
from ungate.host import toolchain


def lines(*text: str) -> tuple[Instruction, ...]:
    return tuple(Instruction(line.partition(" ")[0], line.partition(" ")[2]) for line in text)


@pytest.mark.parametrize(
    ("code", "callees", "effect"),
    [
        pytest.param(lines("LDC R1", "EXIT", "BRA 0x20", "NOP"), "", Effect.HOLLOW, id="nothing at all"),
        pytest.param(lines("LDG.E R2", "STS [R7],R2", "BAR.SYNC", "EXIT"), "", Effect.HOLLOW, id="its own block only"),
        pytest.param(lines("STL [R1],R2", "EXIT"), "", Effect.HOLLOW, id="local memory"),
        pytest.param(lines("ATOMS.ADD R1", "STAS [R2.64],R0"), "", Effect.HOLLOW, id="shared atomics"),
        pytest.param(lines("ACQBULK", "PREEXIT", "EXIT"), "", Effect.HOLLOW, id="dependent launch alone"),
        pytest.param(lines("UBLKCP.S.G [UR6],[UR4],UR8"), "", Effect.HOLLOW, id="bulk copy in"),
        pytest.param(lines("UBLKCP.G.S [UR6],[UR4],UR8"), "", Effect.PRESENT, id="bulk copy out"),
        pytest.param(lines("STG.E.64 desc[UR4][R2.64],R5"), "", Effect.PRESENT, id="store"),
        pytest.param(lines("ST.E [R2.64],R5"), "", Effect.PRESENT, id="generic store"),
        pytest.param(lines("REDG.E.ADD.STRONG.GPU [R2],R5"), "", Effect.PRESENT, id="reduction"),
        pytest.param(lines("RED.E.ADD.STRONG.SYS [R2],R5"), "", Effect.PRESENT, id="reduction before sm_90"),
        pytest.param(lines("SUST.D.BA.2D.STRONG.SM.TRAP [R2],R0"), "", Effect.PRESENT, id="surface"),
        pytest.param(lines("UTMASTG.2D [UR4],[UR6]"), "", Effect.PRESENT, id="tensor copy out"),
        pytest.param(lines("BPT.TRAP 0x1", "EXIT"), "", Effect.TRAPS, id="trap"),
        pytest.param(lines("BPT.TRAP 0x1", "STG.E [R2],R0"), "", Effect.PRESENT, id="a guard before the body"),
        pytest.param(lines("CALL.ABS.NOINC R2"), "vprintf", Effect.TRAPS, id="prints"),
        pytest.param(lines("CALL.ABS.NOINC R2"), "__assertfail", Effect.TRAPS, id="asserts"),
        pytest.param(lines("CALL.ABS.NOINC R2"), "", Effect.UNKNOWN, id="called by address"),
        pytest.param(lines("CALL.ABS.NOINC R2"), "nvshmem_put", Effect.UNKNOWN, id="calls another function"),
        pytest.param(lines("CALL.REL.NOINC $k$helper", "RET.REL.NODEC"), "", Effect.HOLLOW, id="its own helper"),
        pytest.param(lines("CALL.REL.NOINC R6,k"), "", Effect.UNKNOWN, id="through a pointer"),
        pytest.param((), "", Effect.UNKNOWN, id="not disassembled"),
    ],
)
def test_what_an_instruction_proves(code: tuple[Instruction, ...], callees: str, effect: Effect) -> None:
    assert sass._effect(code, frozenset(filter(None, [callees]))) is effect


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read: No such file"):
        sass.read(tmp_path / "x.cubin")


def test_a_cubin_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xbe\x00" + bytes(8)
    (tmp_path / "x.cubin").write_bytes(head)
    with pytest.raises(Refusal, match="is no cubin"):
        functions(tmp_path / "x.cubin")


SOURCE = r"""
#include <cstdio>
__device__ __noinline__ void put(float* a, float v) { a[1] = v; }
__device__ __noinline__ float calc(float v) { return v * v + 1; }
template <int N> __global__ void full(float* a, const float* b) {
  __shared__ float s[N];
  s[threadIdx.x] = b[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = s[N - 1 - threadIdx.x];
}
template __global__ void full<64>(float*, const float*);
__global__ void hollow(float* a) {
#if __CUDA_ARCH__ < 800
  a[0] = 1;
#endif
}
__global__ void traps(float*) { asm volatile("trap;"); }
__global__ void prints() { printf("not on this GPU\n"); }
__global__ void guarded(float* a, int n) { if (n > 3) __trap(); a[n] = 2; }
__global__ void adds(int* a) { atomicAdd(a, 1); }
__global__ void calls(float* a) { put(a, 2.f); }
__global__ void loads_only(float* a) { float v = calc(a[0]); if (v == 3.f) asm volatile("nanosleep.u32 1;"); }
__global__ void divides(long long* a, long long b) { if (a[0] / b == 77) asm volatile("nanosleep.u32 1;"); }
typedef void (*Put)(float*);
__device__ void one(float* a) { a[0] = 1; }
__device__ void two(float* a) { a[0] = 2; }
__device__ Put table[2] = {one, two};
__global__ void indirect(float* a, int i) { table[i](a); }
__global__ void __launch_bounds__(1024) spills(float* a) {
  float x[200];
  for (int i = 0; i < 200; i++) x[i] = a[i * (int)a[3]];
  for (int i = 0; i < 200; i++) a[i] = x[(int)x[i] & 127];
}
"""
EFFECTS = {
    "full": Effect.PRESENT,
    "hollow": Effect.HOLLOW,
    "traps": Effect.TRAPS,
    "prints": Effect.TRAPS,
    "guarded": Effect.PRESENT,
    "adds": Effect.PRESENT,
    "calls": Effect.PRESENT,
    "loads_only": Effect.HOLLOW,
    "divides": Effect.HOLLOW,
    "indirect": Effect.PRESENT,
    "spills": Effect.PRESENT,
}


def compiled(folder: Path, arch: str, *options: str, name: str = "x.cubin") -> Path:
    (folder / "x.cu").write_text(SOURCE)
    command = [str(toolchain.need("nvcc")), *(options or ("-cubin",)), f"-arch={arch}", str(folder / "x.cu")]
    subprocess.run([*command, "-o", str(folder / name)], check=True, timeout=280)
    return folder / name


def effects(image: Image) -> dict[str, Effect]:
    return {
        kernel.title.partition("(")[0].removeprefix("void ").partition("<")[0]: kernel.effect
        for kernel in image.kernels
    }


@pytest.mark.toolkit
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_real_kernels_of_every_kind(tmp_path: Path, arch: str) -> None:
    (image,) = sass.read(compiled(tmp_path, arch))
    assert effects(image) == EFFECTS
    assert image.arch == arch
    assert f"-arch {arch}" in image.options
    kernels = {kernel.title.partition("(")[0]: kernel for kernel in image.kernels}
    assert kernels["spills"].stack
    assert kernels["spills"].local > 0
    full = kernels["void full<64>"]
    assert full.shared == 256 + (1024 if arch != "sm_80" else 0)
    assert full.registers
    assert kernels["hollow"].instructions == 16


@pytest.mark.toolkit
def test_the_short_way_agrees_with_the_whole_disassembly(tmp_path: Path) -> None:
    cubin = compiled(tmp_path, "sm_120a")
    found = functions(cubin)
    _, short, local = sass._read(cubin, found)
    _, whole, all_local = sass._read_all(cubin, found)
    assert short == whole
    assert local == all_local


@pytest.mark.toolkit
def test_an_opcode_with_two_names_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubin = compiled(tmp_path, "sm_120a")
    monkeypatch.setattr(opcodes, "mnemonics", lambda cubin, functions: None)
    (image,) = sass.read(cubin)
    assert effects(image) == EFFECTS


@pytest.mark.toolkit
def test_a_shared_library_is_read_by_architecture(tmp_path: Path) -> None:
    options = ("-shared", "-Xcompiler", "-fPIC", "-gencode=arch=compute_90a,code=sm_90a", "-cudart=none")
    library = compiled(tmp_path, "sm_120a", *options, name="x.so")
    assert {image.arch for image in sass.read(library)} == {"sm_90a", "sm_120a"}
    assert archs(library) == ("sm_120a", "sm_90a")
    (image,) = sass.read(library, "sm_120a")
    assert effects(image) == EFFECTS
    with pytest.raises(Refusal, match="holds no GPU machine code for sm_100a"):
        sass.read(library, "sm_100a")


@pytest.mark.toolkit
def test_a_library_of_the_host_holds_no_gpu_code() -> None:
    import psutil

    library = next(path for path in Path(psutil.__file__).parent.glob("*.so"))
    with pytest.raises(Refusal, match="holds no GPU machine code"):
        sass.read(library)


@pytest.mark.toolkit
def test_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.cubin").write_text("no binary")
    with pytest.raises(Refusal, match=r"cuobjdump cannot read|holds no GPU"):
        sass.read(tmp_path / "x.cubin")
