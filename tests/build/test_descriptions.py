from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ungate.build.descriptions import Companion, Neighbour, Wanted, describe
from ungate.build.unit import Module
from ungate.errors import Refusal
from ungate.host import toolchain
from ungate.host.packages import Package
from ungate.model import Target


def asked(build: str, package: Package, companion: Companion, neighbour: Neighbour = lambda name: None) -> Module:
    return describe(Wanted(build, package, Target(120), companion, neighbour))


def names(paths: tuple[Path, ...]) -> list[str]:
    return ["/".join(path.parts[-2:]) for path in paths]


def test_sources_flags_and_headers_are_the_packages_own(package: Package, companion: Companion) -> None:
    module = asked("flashinfer.jit.comm:gen_fused_module", package, companion)
    assert (module.name, module.version, module.suffix) == ("fused", "0.6.3", "a")
    assert names(module.sources) == ["csrc/fused.cu", "csrc/plain.cu"]
    assert names(module.includes) == ["data/include", "cutlass/include", "tvm_ffi/include"]
    assert set(module.flags) == {
        "-use_fast_math",
        "-std=c++17",
        "-DNDEBUG",
        "-O3",
        "--expt-relaxed-constexpr",
        "-static-global-template-stub=false",
        "-DENABLE_FP8",
        "-DFUSED=1",
    }
    assert (module.file, module.notes) == ("flashinfer/jit/comm.py", ())
    assert (package.root / module.file).read_text().splitlines()[module.line - 1].strip() == "return gen_jit_spec("


def test_what_cannot_be_followed_is_said(package: Package, companion: Companion) -> None:
    module = asked("flashinfer.jit.comm:gen_modern_module", package, companion)
    assert names(module.sources) == ["csrc/plain.cu"]
    assert names(module.includes)[0] == "data/extra"
    assert "-std=c++20" in module.flags
    assert "-std=c++17" not in module.flags
    assert module.notes == ("'make_source('x')' could not be followed", "the flags 'f'-DN={n}'' could not be followed")


def test_an_architecture_among_the_flags_is_not_the_targets(package: Package, companion: Companion) -> None:
    """flashinfer#5355: a module that is compiled for sm_89 on every GPU."""
    module = asked("flashinfer.jit.comm:gen_other_module", package, companion)
    assert module.notes == ("its own flags build for sm_89 alone: on sm_120 nothing of it would be there",)
    assert {"-DFP8", "-DX"} <= set(module.flags)
    assert not any("gencode" in flag for flag in module.flags)
    ada = Wanted("flashinfer.jit.comm:gen_other_module", package, Target(89), companion)
    assert describe(ada).notes == ()


def test_prebuilt_libraries_that_go_before_compiling(package: Package, companion: Companion, tmp_path: Path) -> None:
    own = package.root / "flashinfer/data/aot/fused/fused.so"
    theirs = tmp_path / "flashinfer_jit_cache/jit_cache/fused/fused.so"
    for library in (own, theirs, theirs.parent.parent / "other/other.so"):
        library.parent.mkdir(parents=True)
        library.touch()
    build = "flashinfer.jit.comm:gen_fused_module"
    assert asked(build, package, companion).prebuilt == (own,)
    jit_cache = Package("flashinfer-jit-cache", "0.6.3", tmp_path, ("flashinfer_jit_cache",))
    found = asked(build, package, companion, lambda name: jit_cache if name == jit_cache.name else None)
    assert found.prebuilt == (theirs,)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        pytest.param("flashinfer.jit.comm:gen_generated_module", "are made while it runs", id="generated sources"),
        pytest.param("flashinfer.jit.comm:gen_nothing", "has no function 'gen_nothing'", id="no such function"),
        pytest.param("flashinfer.jit.comm:helper", "that calls gen_jit_spec", id="no description"),
        pytest.param("flashinfer.jit.nope:gen_x", "cannot be read", id="no such file"),
        pytest.param("other.build:make", "could not be read from its files", id="another package"),
        pytest.param("flashinfer.jit.comm", "could not be read from its files", id="a module to run"),
    ],
)
def test_what_is_no_description_is_refused(package: Package, companion: Companion, build: str, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        asked(build, package, companion)


def test_broken_python_is_refused(package: Package, companion: Companion) -> None:
    (package.root / "flashinfer/jit/comm.py").write_text("def (:\n")
    with pytest.raises(Refusal, match="is not readable Python"):
        asked("flashinfer.jit.comm:gen_fused_module", package, companion)


@pytest.mark.wheels
def test_the_real_flashinfer(companion: Companion) -> None:
    """0.6.3: three sources, and more than two thirds of all its descriptions can be read."""
    from ungate.host import index, packages

    (real,) = packages.below(index.fetch("flashinfer-python==0.6.3"))
    module = asked("flashinfer.jit.comm:gen_trtllm_comm_module", real, companion)
    assert [source.name for source in module.sources] == [
        "trtllm_allreduce.cu",
        "trtllm_allreduce_fusion.cu",
        "trtllm_moe_allreduce_fusion.cu",
    ]
    assert all(source.is_file() for source in module.sources)
    assert {"-DFLASHINFER_ENABLE_BF16", "-DFLASHINFER_ENABLE_FP8_E8M0", "-std=c++17", "-O3"} <= set(module.flags)
    assert {"data/include", "data/csrc", "cutlass/include", "spdlog/include"} <= set(names(module.includes))
    read = refused = 0
    for file in (real.root / "flashinfer" / "jit").rglob("*.py"):
        dotted = ".".join(file.relative_to(real.root).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.FunctionDef)
                and node.name.startswith("gen_")
                and "gen_jit_spec(" in ast.unparse(node)
            ):
                try:
                    asked(f"{dotted}:{node.name}", real, companion)
                    read += 1
                except Refusal:
                    refused += 1
    assert read > 2 * refused


@pytest.mark.parametrize(
    ("version", "target", "suffix"), [("13.0.88", 120, "f"), ("12.8.61", 120, "a"), ("13.0.88", 121, "a")]
)
def test_the_suffix_hangs_on_the_compiler_in_newer_releases(
    package: Package, companion: Companion, monkeypatch: pytest.MonkeyPatch, version: str, target: int, suffix: str
) -> None:
    """FlashInfer 0.7.4: sm_120f from nvcc 12.9 on, sm_120a before, sm_121a."""
    (package.root / "flashinfer/compilation_context.py").write_text("""
import os
import torch

class CompilationContext:
    COMMON_NVCC_FLAGS = []

    @staticmethod
    def _normalize_cuda_arch(major: int, minor: int) -> tuple[int, str]:
        if major == 12:
            from flashinfer.jit.cpp_ext import is_cuda_version_at_least
            if minor == 0:
                if is_cuda_version_at_least("12.9"):
                    return (major, "0f")
                return (major, "0a")
        return (major, str(minor) + "a")

    def __init__(self):
        self.TARGET_CUDA_ARCHS = set()
        try:
            for device in range(torch.cuda.device_count()):
                major, minor = torch.cuda.get_device_capability(device)
                self.TARGET_CUDA_ARCHS.add(self._normalize_cuda_arch(major, minor))
        except Exception as e:
            print(e)
""")
    monkeypatch.setattr(toolchain, "tool", lambda name: toolchain.Tool(name, Path("/nvcc"), version))
    build = "flashinfer.jit.comm:gen_fused_module"
    assert describe(Wanted(build, package, Target(target), companion)).suffix == suffix
