from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.build import compile as compiling
from ungate.build.compile import Complaint, compile_module, effective_target
from ungate.build.descriptions import Wanted, describe
from ungate.build.unit import Module
from ungate.errors import Refusal
from ungate.host import toolchain
from ungate.host.packages import Package
from ungate.model import Target


@pytest.fixture
def module(package: Package, companion: Callable[[str], Package]) -> Module:
    return described(package, companion, "sm_120")


def described(package: Package, companion: Callable[[str], Package], target: str) -> Module:
    return describe(Wanted("flashinfer.jit.comm:gen_fused_module", package, Target.parse(target), companion))


@pytest.mark.parametrize(
    ("asked", "built"),
    [("sm_120", "sm_120a"), ("sm_120f", "sm_120f"), ("sm_90", "sm_90a"), ("sm_89", "sm_89"), ("sm_80", "sm_80")],
)
def test_the_package_says_which_suffix_a_bare_target_gets(
    package: Package, companion: Callable[[str], Package], asked: str, built: str
) -> None:
    assert str(effective_target(described(package, companion, asked), Target.parse(asked))) == built


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('/a b/e.cu(2): error: identifier "Y" is undefined', Complaint("/a b/e.cu", 2, 'identifier "Y" is undefined')),
        ("/x/e.cu(7): error #20: wrong", Complaint("/x/e.cu", 7, "wrong")),
        ("g.cu:1:10: fatal error: nope.h: No such file", Complaint("g.cu", 1, "nope.h: No such file")),
        ("ptxas /tmp/e.ptx, line 28; error   : Modifier '.wait'", Complaint("/tmp/e.ptx", 28, "Modifier '.wait'")),
        ("nvcc fatal   : Unsupported gpu", Complaint("", 0, "Unsupported gpu")),
    ],
)
def test_what_compilers_complain_of(line: str, complaint: Complaint) -> None:
    said = f"{line}\n  a[0] = Y;\n  ^\n1 error detected\nptxas info    : 0 bytes gmem\nx.cu(3): warning #1: no\n"
    assert list(compiling._complaints(said)) == [complaint]


def test_a_blank_in_a_name_does_not_cut_it(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("x.cubin : /a\\ b/x.cu \\\n    /usr/y.h \\\n    /z.h\n")
    assert list(compiling._dependencies(tmp_path / "d")) == [Path("/a b/x.cu"), Path("/usr/y.h"), Path("/z.h")]


def test_spills_are_told_by_kernel() -> None:
    said = (
        "ptxas info    : Function properties for _Z1kPf\n"
        "    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
    )
    assert compiling._spills(said) == {"_Z1kPf": (12, 8)}


def test_an_unknown_unit_and_an_unknown_target_are_refused(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refusal, match=r"fused has no source other\.cu") as caught:
        compile_module(module, Target(120), tmp_path, only=["other.cu"])
    assert "fused.cu, plain.cu" in caught.value.next_step
    monkeypatch.setattr(toolchain, "codes", lambda: ("sm_90", "sm_100"))
    monkeypatch.setattr(toolchain, "need", lambda name: Path("/usr/bin/nvcc"))
    with pytest.raises(Refusal, match=r"cannot compile for sm_120a \(it knows sm_90 sm_100\)"):
        compile_module(module, Target(120), tmp_path)


def test_a_compiler_that_hangs_is_given_up(module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho started\nsleep 60\n")
    nvcc.chmod(0o755)
    monkeypatch.setattr(toolchain, "need", lambda name: nvcc)
    monkeypatch.setattr(toolchain, "tool", lambda name: None)
    monkeypatch.setattr(toolchain, "codes", lambda: None)
    with pytest.raises(Refusal, match=r"fused\.cu did not compile within 0 s"):
        compile_module(module, Target(120), tmp_path / "out", deadline_s=0.3)
    assert not list((tmp_path / "out").glob("*.cubin*"))


@pytest.mark.toolkit
def test_real_units_compile_and_are_kept_by_content(module: Module, package: Package, tmp_path: Path) -> None:
    said: list[str] = []
    first = compile_module(
        module, Target(120), tmp_path / "out", report=lambda what, done=0, total=0: said.append(what)
    )
    assert [(one.source.name, one.target, one.fresh) for one in first] == [
        ("fused.cu", "sm_120a", False),
        ("plain.cu", "sm_120a", False),
    ]
    assert all(one.cubin and one.cubin.exists() and not one.complaints for one in first)
    assert said[-1] == "compiled plain.cu for sm_120a"
    assert any(kernel.startswith("_Z7twoshot") for kernel in first[0].spills)
    header = package.root / "flashinfer/data/include/comm/fused.cuh"
    assert str(header) in json.loads(next((tmp_path / "out").glob("fused.fused.*.json")).read_text())["inputs"]

    header.touch()  # a new date and the same content
    assert [one.fresh for one in compile_module(module, Target(120), tmp_path / "out")] == [True, True]
    header.write_text(header.read_text() + "\n// changed\n")
    assert [one.fresh for one in compile_module(module, Target(120), tmp_path / "out")] == [False, True]
    (plain,) = compile_module(module, Target(90), tmp_path / "out", only=["plain.cu"])
    assert (plain.target, plain.fresh) == ("sm_90a", False)


@pytest.mark.toolkit
def test_a_unit_that_does_not_compile_says_where(module: Module, package: Package, tmp_path: Path) -> None:
    good = compile_module(module, Target(120), tmp_path / "out")
    assert good[1].cubin
    (package.root / "flashinfer/data/csrc/plain.cu").write_text('__global__ void k(float* a) { asm("nonsense;"); }\n')
    broken = compile_module(module, Target(120), tmp_path / "out", only=["plain.cu"])[0]
    assert broken.cubin is None
    assert not good[1].cubin.exists()  # the result of older sources is not left lying about
    assert any("nonsense" in complaint.text for complaint in broken.complaints)
    header = package.root / "flashinfer/data/include/comm/fused.cuh"
    header.write_text("#error closed here\n")
    complaint = compile_module(module, Target(120), tmp_path / "out", only=["fused.cu"])[0].complaints[0]
    assert (Path(complaint.file), complaint.line) == (header, 1)
