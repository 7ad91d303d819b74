"""Where each cache lies and what is seen in it: one layout a cache, as its owner writes it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ungate.build.caches import Cache, Found, caches, size_of


def cache(name: str) -> Cache:
    return next(one for one in caches() if one.name == name)


def write(root: Path, *files: str, content: str = "x") -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(content)


def found(name: str, root: Path) -> list[Found]:
    return list(cache(name).entries(root))


@pytest.mark.parametrize(
    ("name", "variables", "place"),
    [
        ("flashinfer", {"HOME": "/h"}, "/h/.cache/flashinfer"),
        ("flashinfer", {"FLASHINFER_WORKSPACE_BASE": "/w"}, "/w/.cache/flashinfer"),
        ("torch_extensions", {"HOME": "/h"}, "/h/.cache/torch_extensions"),
        ("torch_extensions", {"TORCH_EXTENSIONS_DIR": "/t"}, "/t"),
        ("triton", {"HOME": "/h"}, "/h/.triton/cache"),
        ("triton", {"TRITON_HOME": "/t"}, "/t/.triton/cache"),
        ("triton", {"TRITON_CACHE_DIR": "/c"}, "/c"),
        ("inductor", {"TORCHINDUCTOR_CACHE_DIR": "/i"}, "/i"),
        ("vllm", {"HOME": "/h"}, "/h/.cache/vllm"),
        ("vllm", {"XDG_CACHE_HOME": "/x"}, "/x/vllm"),
        ("vllm", {"VLLM_CACHE_ROOT": "/v"}, "/v"),
        ("sglang", {"HOME": "/h"}, "/h/.cache/sglang"),
        ("sglang_jit", {"HOME": "/h", "SGLANG_CACHE_DIR": "/s"}, "/h/.cache/sglang/jit"),
        ("sglang_jit", {"SGLANG_JIT_CACHE_DIR": "/j"}, "/j"),
        ("deep_gemm", {"HOME": "/h"}, "/h/.deep_gemm"),
        ("deep_gemm", {"SGLANG_DG_CACHE_DIR": "/d"}, "/d"),
        ("tilelang", {"TILELANG_CACHE_DIR": "/t"}, "/t"),
        ("tvm_ffi", {"HOME": "/h"}, "/h/.cache/tvm-ffi"),
        ("cute_dsl", {"CUTE_DSL_CACHE_DIR": "/c"}, "/c"),
        ("cuda_driver", {"HOME": "/h"}, "/h/.nv/ComputeCache"),
    ],
)
def test_the_environment_says_where(name: str, variables: dict[str, str], place: str) -> None:
    assert cache(name).place(variables) == Path(place)


def test_without_variables_inductor_is_in_the_temporary_folder() -> None:
    assert cache("inductor").place({"TMPDIR": "/tmp/x"}).parent == Path("/tmp/x")


def test_flashinfer_in_both_layouts(tmp_path: Path) -> None:
    new, old = tmp_path / "0.6.3/120a/cached_ops", tmp_path / "90a_100a/cached_ops"
    write(new / "trtllm_comm", "build.ninja", "trtllm_comm.so", "trtllm_allreduce.cuda.o")
    write(new / "half", "build.ninja", "half.cuda.o")
    write(new, "tmp/trtllm_comm.lock")
    write(old / "page", "page.so")
    write(tmp_path, "cubins/hash/x.cubin", "0.6.3/readme.txt", "0.6.3/120a/generated/page/page.cu")
    comm, half, page = sorted(found("flashinfer", tmp_path), key=lambda one: one.name != "trtllm_comm")
    assert (comm.name, comm.version, comm.arch) == ("trtllm_comm", "0.6.3", "sm_120a")
    assert [path.name for path in comm.outputs] == ["trtllm_comm.so"]
    assert [path.name for path in comm.locks] == ["trtllm_comm.lock"]
    assert half.note.startswith("not linked")
    assert (page.version, page.arch, page.inputs) == ("", "sm_90a sm_100a", None)


def test_torch_extensions_and_the_lock_that_is_left(tmp_path: Path) -> None:
    write(tmp_path / "py311_cpu/mine", "build.ninja", "mine.so", "lock")
    write(tmp_path / "direct", "build.ninja", "direct.so")
    direct, mine = found("torch_extensions", tmp_path)
    assert (mine.name, mine.arch) == ("mine", "py311_cpu")
    assert "waits for ever" in mine.note
    assert (direct.arch, direct.locks, direct.note) == ("", (), "")


def test_triton_tells_version_and_target(tmp_path: Path) -> None:
    write(tmp_path / "ABC", "add.cubin", "__grp__add.json")
    (tmp_path / "ABC/add.json").write_text(
        json.dumps({"hash": "x", "target": {"backend": "cuda", "arch": 120}, "triton_version": "3.5.0"})
    )
    write(tmp_path / "DEF", "launcher.so")
    write(tmp_path / "GHI", "broken.json", content="{")
    write(tmp_path / "JKL", "endless.json", content="[" * 50_000)
    kernel, launcher, broken, endless = found("triton", tmp_path)
    assert (kernel.name, kernel.version, kernel.arch, kernel.addressed) == ("add", "3.5.0", "sm_120", True)
    assert (launcher.name, launcher.version) == ("launcher", "")
    assert (broken.name, endless.name) == ("GHI", "JKL")


def test_deep_gemm_refuses_half_a_kernel(tmp_path: Path) -> None:
    write(tmp_path / "cache/kernel.fp8_gemm.abc", "kernel.cu", "kernel.cubin")
    write(tmp_path / "cache/kernel.half.abc", "kernel.cu")
    whole, half = found("deep_gemm", tmp_path)
    assert (whole.name, whole.stale) == ("fp8_gemm", "")
    assert "lacks its source or its cubin" in half.stale


@pytest.mark.parametrize(
    ("name", "files", "entries"),
    [
        ("inductor", ["ab/cabc.py", "fxgraph/x/y", "locks/a.lock"], ["ab", "fxgraph"]),
        ("vllm", ["torch_compile_cache/0a1b/rank_0_0/graph.py", "modelinfos/x.json"], ["0a1b"]),
        ("sglang", ["torch_compile_cache/0a1b/rank_0_0/graph.py"], ["0a1b"]),
        ("sglang_jit", ["sm120f/kv/build-1/deps-2/kv.so", "sm120f/kv/build-1/.lock"], ["kv"]),
        ("tilelang", ["hash1/kernel_lib.so", "tmp/x"], ["hash1"]),
        ("tvm_ffi", ["mine_abc/build.ninja", "mine_abc/main.so"], ["mine_abc"]),
        ("cute_dsl", ["abc.mlir", "abc.lock"], ["abc.mlir"]),
        ("cuda_driver", ["a/b/index"], ["ComputeCache"]),
    ],
)
def test_the_other_layouts(tmp_path: Path, name: str, files: list[str], entries: list[str]) -> None:
    write(tmp_path, *files)
    assert [entry.name for entry in found(name, tmp_path)] == entries


def test_sglangs_own_jit_tells_its_target_and_what_was_cut_short(tmp_path: Path) -> None:
    write(tmp_path / "sm120f/kv/build-1", "deps-2/kv.so", "deps-2/sgl_deps.json", ".staging-ab/cuda.cu", ".lock")
    half, whole = found("sglang_jit", tmp_path)
    assert (whole.name, whole.arch, whole.addressed, whole.stale) == ("kv", "sm_120f", True, "")
    assert [path.name for path in (*whole.outputs, *whole.locks)] == ["kv.so", ".lock"]
    assert "did not end" in half.stale


@pytest.mark.parametrize("name", [one.name for one in caches()])
def test_an_empty_cache_holds_nothing(tmp_path: Path, name: str) -> None:
    assert found(name, tmp_path) == []


@pytest.mark.parametrize("name", ["flashinfer", "triton", "inductor", "tilelang", "cute_dsl"])
def test_a_link_is_no_entry(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, "120a/cached_ops/x/x.so", "x.so", "x.cubin")
    root = tmp_path / "root"
    root.mkdir()
    (root / "0.6.3").symlink_to(elsewhere)
    (root / "x.mlir").symlink_to(elsewhere / "x.so")
    assert found(name, root) == []


def test_size_does_not_follow_links(tmp_path: Path) -> None:
    write(tmp_path / "big", "data", content="x" * 100_000)
    write(tmp_path / "entry", "small", content="x" * 10)
    (tmp_path / "entry/link").symlink_to(tmp_path / "big")
    (tmp_path / "entry/file-link").symlink_to(tmp_path / "big/data")
    assert size_of(tmp_path / "entry") < 1000


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_a_peer_verdict_is_an_entry(tmp_path: Path, name: str) -> None:
    now, old = (tmp_path / f"gpu_p2p_access_cache_for_{gpus}.json" for gpus in ("0,1", "0,1,2"))
    for file in (now, old):
        file.write_text("{}")
    os.utime(old, (1, 1))
    (tmp_path / "gpu_p2p_access_cache_for_9.json").symlink_to(now)
    (cache,) = [each for each in caches() if each.name == name]
    found = {entry.path: entry for entry in cache.entries(tmp_path)}
    assert found.keys() == {now, old}
    assert not found[now].stale and "before this machine was last started" in found[old].stale


def test_a_layout_that_no_real_build_made_here_says_so() -> None:
    compared = {cache.name for cache in caches() if not cache.layout}
    assert compared == {"flashinfer", "inductor", "torch_extensions", "triton"}  # by test_real_caches.py
