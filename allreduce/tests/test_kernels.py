"""Every kernel for every architecture without a GPU, and what its machine code must and must not contain."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from ungate_allreduce.compile import Image, compile_kernel
from ungate_allreduce.loaded import ARCHS, target_of
from ungate_allreduce.plan import realise
from ungate_allreduce.replay import mix
from ungate_allreduce.trial import matrix
from ungate_allreduce.tuner import Case, choices
from ungate_allreduce.variant import Dtype, Line, Quant, Variant, fitting

FUSED = fitting(Variant(2, Dtype.BFLOAT16, Line.LL8, 1, 4096, 512))
ROTATION = (
    FUSED,
    fitting(Variant(4, Dtype.FLOAT16, Line.F16, 2, 4096, 256)),
    Variant(8, Dtype.BFLOAT16, Line.LL8, 2, threads=256),
    fitting(Variant(2, Dtype.FLOAT32, Line.F12, 1, 4096, 256)),
    fitting(Variant(3, Dtype.FLOAT16, Line.LL8, 1, 4095, 256, aligned=False)),
    fitting(Variant(2, Dtype.BFLOAT16, Line.F16, 1, 8192, 512, quant=Quant.FP8_TOKEN, norm_out=False)),
    fitting(Variant(2, Dtype.BFLOAT16, Line.F16, 1, 4096, 256, quant=Quant.NVFP4, norm_out=False)),
    Variant(2, Dtype.BFLOAT16, Line.F16, threads=256, vec=4, lag=1),
)


def build(variant: Variant, arch: int) -> Image:
    target, native = target_of(variant, arch)
    return compile_kernel("allreduce.cu", target, variant.defines(arch, native_e2m1=native))


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("place", range(len(ARCHS)))
def test_each_architecture_compiles_without_local_memory(place: int) -> None:
    arch = ARCHS[place]
    image = build(ROTATION[place % len(ROTATION)], arch)
    assert image.data.startswith(b"\x7fELF")
    assert not image.ptx
    assert not image.spills, image.log


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_dtype_format_shot_and_epilogue_compiles(arch: int) -> None:
    """66 kernels an architecture, 2 to 4 minutes on one core."""
    for variant in dict.fromkeys(variant for variant, _ in matrix((2, 4))):
        assert build(variant, arch).data.startswith(b"\x7fELF")


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("arch", [80, 90, 120])
def test_no_launch_shape_of_the_tuner_spills(arch: int) -> None:
    """About 190 kernels an architecture, 5 to 10 minutes on one core."""
    table = [
        realise(choice, world, Dtype.BFLOAT16, rows, hidden=hidden)
        for world in (2, 4, 8)
        for rows, hidden in ((1, 4096), (8, 4096), (32, 8192))
        for choice in choices(world, Case(Dtype.BFLOAT16, rows, hidden))
    ] + [shape.variant(4) for shape in mix(4)]
    for variant in dict.fromkeys(table):
        image = build(variant, arch)
        assert not image.spills, f"{variant}: {image.log}"


@pytest.mark.parametrize(("arch", "line"), [(80, Line.F16), (90, Line.LL8), (120, Line.F16)])
@pytest.mark.usefixtures("nvrtc")
def test_lines_are_whole_strong_system_accesses(disassemble: Callable[[bytes], str], arch: int, line: Line) -> None:
    sass = disassemble(build(replace(FUSED, line=line), arch).data)
    assert re.search(r"STG\.E\.128\.STRONG\.SYS", sass)
    assert re.search(r"LDG\.E\.128\.STRONG\.SYS", sass)
    # Narrow system accesses are the report words alone: one 8-byte store, and loads to look at the peers' reports.
    assert not re.search(
        r"STG\.E\.(U8|U16|STRONG)\S*SYS", sass.replace("STG.E.128.STRONG", "").replace("STG.E.64.STRONG", "")
    )


@pytest.mark.parametrize(("arch", "place"), [(75, 0), (90, 0), (120, 1), (90, 2)])
@pytest.mark.usefixtures("nvrtc")
def test_no_read_modify_write_leaves_the_device(disassemble: Callable[[bytes], str], arch: int, place: int) -> None:
    """Host memory has no native atomics over PCIe: atomics may only be of GPU scope, on this rank's own state."""
    variants = (FUSED, replace(FUSED, line=Line.F16), Variant(4, Dtype.BFLOAT16, Line.LL8, 2, threads=256))
    for variant in variants[place : place + 1]:
        sass = disassemble(build(variant, arch).data)
        found = set(re.findall(r"(?<!BAR\.)\b(?:ATOM|RED|ATOMG|ATOMS)\.\S+", sass))
        assert found
        assert all(".GPU" in one for one in found), found


@pytest.mark.usefixtures("nvrtc")
def test_the_fence_belongs_to_the_sentinel_format(disassemble: Callable[[bytes], str]) -> None:
    assert "MEMBAR" not in disassemble(build(FUSED, 90).data)
    assert "MEMBAR" in disassemble(build(replace(FUSED, line=Line.F16), 90).data)


@pytest.mark.usefixtures("nvrtc")
def test_dependent_launch_from_sm_90_on(disassemble: Callable[[bytes], str]) -> None:
    assert "ACQBULK" in disassemble(build(FUSED, 90).data)
    assert "ACQBULK" not in disassemble(build(FUSED, 80).data)


@pytest.mark.parametrize(("arch", "mnemonic"), [(100, "E2M1"), (120, "E2M1")])
@pytest.mark.usefixtures("nvrtc")
def test_nvfp4_converts_in_hardware_where_the_target_does(
    disassemble: Callable[[bytes], str], arch: int, mnemonic: str
) -> None:
    variant = fitting(Variant(2, Dtype.BFLOAT16, Line.F16, 1, 4096, 256, quant=Quant.NVFP4, norm_out=False))
    assert target_of(variant, arch) == (f"{arch}a", True)
    assert mnemonic in disassemble(build(variant, arch).data)
    assert target_of(variant, 90) == ("90", False)
    assert mnemonic not in disassemble(build(variant, 90).data)


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("file", ["primitives.cu", "replay.cu"])
def test_helpers_compile(file: str) -> None:
    for arch in ("75", "120"):
        assert compile_kernel(file, arch, {}).data.startswith(b"\x7fELF")
