"""Binaries without code for the target, on fat binaries that are laid out by hand and on real ones."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from ungate.check import check
from ungate.host.images import Image, images, units
from ungate.host.packages import below
from ungate.host.toolchain import find
from ungate.model import Chain, Finding, Hop, Target

SUFFIXES = {"": 0, "a": 1 << 20, "f": 1 << 21}


def _unit(*held: str) -> bytes:
    entries = b""
    for name in held:
        kind, _, arch = name.partition("_")
        suffix = arch[-1] if arch[-1] in "af" else ""
        number = int(arch.removesuffix(suffix))
        payload = b"\0" * 8
        head = struct.pack("<HHIQ", 1 if kind == "compute" else 2, 257, 64, len(payload))
        head += bytes(12) + struct.pack("<I8xQ", number, SUFFIXES[suffix] | 0x11)
        entries += head.ljust(64, b"\0") + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def _library(path: Path, *held: tuple[str, ...]) -> None:
    """An ELF file of 64 bits with one section of fat binaries."""
    data, names = b"".join(_unit(*unit) for unit in held), b"\0.nv_fatbin\0.shstrtab\0"
    body = data + names
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 3, 2
    )
    rows = [(0, 0, 0, 0), (1, 1, 64, len(data)), (12, 3, 64 + len(data), len(names))]
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, at, size, 0, 0, 1, 0) for name, kind, at, size in rows
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + body + table)


def _ask(root: Path, *held: tuple[str, ...], arch: int = 120, blocker: str = "") -> tuple[Finding, ...]:
    _library(root / "kernels/_C.abi3.so", *held)
    chain = Chain("f", Target(arch), (Hop("kernel", "kernels/_C.abi3.so", 0, "op", True, blocker=blocker),))
    return tuple(found for found in check(chain, Target(arch), below(root / "kernels")) if found.rule == "unbuilt")


@pytest.mark.parametrize(
    ("unit", "arch"),
    [
        (("sm_120",), 120),
        (("sm_120",), 121),  # machine code runs on later minors of its major
        (("sm_120f",), 121),
        (("sm_120a", "sm_90a"), 120),
        (("sm_80",), 89),
    ],
)
def test_nothing(tmp_path: Path, unit: tuple[str, ...], arch: int) -> None:
    assert _ask(tmp_path, unit, unit, arch=arch) == ()


@pytest.mark.parametrize(
    ("unit", "arch"),
    [
        (("sm_90a", "sm_100f"), 120),
        (("sm_120a",), 121),  # the suffix binds it to one architecture
        (("sm_121a",), 120),
        (("sm_121",), 120),  # not on earlier minors
        (("compute_90a",), 120),
        (("sm_100f",), 110),
    ],
)
def test_no_image_at_all(tmp_path: Path, unit: tuple[str, ...], arch: int) -> None:
    (finding,) = _ask(tmp_path, unit, arch=arch)
    assert finding.severity == "danger"
    assert finding.what == f"_C.abi3.so holds {' '.join(sorted(unit, key=_number))} and nothing that sm_{arch} can run"


def _number(name: str) -> int:
    return int("".join(filter(str.isdigit, name)))


def test_one_unit_of_three(tmp_path: Path) -> None:
    (finding,) = _ask(tmp_path, ("sm_120",), ("sm_90a",), ("sm_120f",))
    assert finding.severity == "warning" and finding.confidence == "low"
    assert finding.what.startswith("1 of 3 translation units of _C.abi3.so")


def test_ptx_of_an_older_architecture(tmp_path: Path) -> None:
    (finding,) = _ask(tmp_path, ("sm_80", "compute_80"), ("sm_120",))
    assert finding.severity == "note" and "1 of 2 translation units" in finding.what


def test_what_the_chain_says_is_not_said_twice(tmp_path: Path) -> None:
    assert _ask(tmp_path, ("sm_90a",), blocker="nothing that it can run") == ()


def test_a_module_that_stands_before_a_compilation(tmp_path: Path) -> None:
    (tmp_path / "flashinfer").mkdir()
    (tmp_path / "flashinfer/k.cu").write_text("")
    _library(tmp_path / "flashinfer_jit_cache/jit_cache/comm/comm.so", ("sm_90a",))
    _library(tmp_path / "flashinfer_jit_cache/jit_cache/norm/norm.so", ("sm_90a",))
    hop = Hop("jit-module", "flashinfer/k.cu", 1, "gen", True, note="builds the module comm")
    found = check(Chain("f", Target(120), (hop,)), Target(120), below(tmp_path / "flashinfer"))
    (finding,) = (finding for finding in found if finding.rule == "unbuilt")
    assert finding.file == "flashinfer_jit_cache/jit_cache/comm/comm.so"
    assert finding.advice.endswith("whatever gate is opened: pip uninstall flashinfer-jit-cache")


@pytest.mark.toolkit
def test_what_nvcc_writes(tmp_path: Path) -> None:
    source = tmp_path / "a.cu"
    source.write_text("__global__ void k(int* p) { *p = 1; }\n")
    told = {
        "sm_90a": Image(90, "a"),
        "sm_120f": Image(120, "f"),
        "sm_100": Image(100),
        "compute_121a": Image(121, "a", ptx=True),
        "compute_80": Image(80, ptx=True),
    }
    wanted = [f"-gencode=arch={code.replace('sm', 'compute')},code={code}" for code in told]
    subprocess.run([str(find("nvcc")), "-c", source, "-o", tmp_path / "a.o", *wanted], check=True, timeout=250)
    assert units(tmp_path / "a.o") == (frozenset(told.values()),)
    assert images(tmp_path / "a.o") == frozenset(told.values())
