from __future__ import annotations

from pathlib import Path

import pytest

from ungate_allreduce.compile import Image, compile_kernel, digest_sources, nvrtc, sources
from ungate_allreduce.errors import CompileError


@pytest.mark.usefixtures("nvrtc")
def test_second_compilation_is_a_file_read(kernel_cache: Path) -> None:
    first = compile_kernel("primitives.cu", "90", {})
    second = compile_kernel("primitives.cu", "90", {})
    assert second.cached
    assert second.data == first.data
    assert second.log == first.log
    assert first.data.startswith(b"\x7fELF")


@pytest.mark.usefixtures("nvrtc")
def test_key_holds_options_and_architecture(kernel_cache: Path) -> None:
    before = set(kernel_cache.iterdir())
    compile_kernel("primitives.cu", "80", {})
    compile_kernel("primitives.cu", "80", {"UNUSED": 1})
    compile_kernel("primitives.cu", "86", {})
    assert len(set(kernel_cache.iterdir()) - before) == 3


@pytest.mark.usefixtures("nvrtc")
def test_damaged_cache_file_is_compiled_again(kernel_cache: Path) -> None:
    good = compile_kernel("primitives.cu", "89", {})
    (path,) = kernel_cache.glob("primitives-89-*")
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    again = compile_kernel("primitives.cu", "89", {})
    assert not again.cached
    assert again.data == good.data
    assert compile_kernel("primitives.cu", "89", {}).cached


@pytest.mark.usefixtures("nvrtc")
def test_cache_that_cannot_be_written_costs_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_ALLREDUCE_CACHE", "/proc/no/such/folder")
    image = compile_kernel("primitives.cu", "90", {})
    assert not image.cached
    assert image.data.startswith(b"\x7fELF")


@pytest.mark.usefixtures("nvrtc")
def test_rejected_source_carries_the_compilers_log() -> None:
    with pytest.raises(CompileError, match=r"rejected allreduce\.cu .*\n.*error"):
        compile_kernel("allreduce.cu", "90", {"WORLD": 2})


@pytest.mark.usefixtures("nvrtc")
def test_gpu_newer_than_the_compiler_gets_ptx() -> None:
    image = compile_kernel("primitives.cu", "999", {})
    assert image.ptx
    assert f".target sm_{max(nvrtc().architectures())}" in image.data.decode(errors="replace")


@pytest.mark.usefixtures("nvrtc")
def test_gpu_older_than_the_compiler_is_refused() -> None:
    with pytest.raises(CompileError, match="does not know sm_52"):
        compile_kernel("primitives.cu", "52", {})


def test_missing_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from ungate_allreduce import compile as module

    monkeypatch.setattr(module, "libraries", lambda: iter([Path("/no/such/libnvrtc.so")]))
    with pytest.raises(CompileError, match="pip install nvidia-cuda-nvrtc"):
        module.Nvrtc()


def test_report_of_spills_is_read() -> None:
    clean = "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
    spilled = "ptxas         .     88 bytes stack frame, 288 bytes spill stores, 160 bytes spill loads"
    assert not Image(b"", clean, False).spills
    assert Image(b"", f"{clean}\n{spilled}", False).spills


def test_digest_covers_every_kernel_file() -> None:
    assert {"allreduce.cu", "exchange.cuh", "line.cuh", "primitives.cu", "replay.cu"} <= set(sources())
    assert len(digest_sources()) == 64
