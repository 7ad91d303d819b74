from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.host.test_images import fatbin, library

from ungate.build import freshness, purge, usage
from ungate.build.freshness import Entry, State
from ungate.errors import Refusal
from ungate.host.environment import Environment


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An environment with FlashInfer 0.6.3 of one header, recorded as it is."""
    import base64
    import hashlib

    root = tmp_path / "site"
    header = root / "flashinfer/data/include/comm.cuh"
    header.parent.mkdir(parents=True)
    header.write_bytes(b"#define CLOSED\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(header.read_bytes()).digest()).rstrip(b"=").decode()
    info = root / "flashinfer_python-0.6.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: flashinfer-python\nVersion: 0.6.3\n")
    (info / "RECORD").write_text(f"flashinfer/data/include/comm.cuh,sha256={digest},15\n")
    return root


@pytest.fixture
def module(tmp_path: Path, site: Path) -> Path:
    """The cache entry of one module that was made from that header."""
    folder = tmp_path / "home/.cache/flashinfer/0.6.3/120a/cached_ops/trtllm_comm"
    folder.mkdir(parents=True)
    (folder / "build.ninja").write_text(f"build {folder}/x.o: cc {site}/flashinfer/data/include/comm.cuh\n")
    (folder / "trtllm_comm.so").write_bytes(b"machine code")
    return folder


@pytest.fixture
def survey(tmp_path: Path, site: Path) -> Callable[[], Entry]:
    def ask() -> Entry:
        environment = Environment((site,), None)
        (entry,) = freshness.survey(environment, {"HOME": str(tmp_path / "home")}, ["flashinfer"])
        return entry

    return ask


def header(site: Path) -> Path:
    return site / "flashinfer/data/include/comm.cuh"


def test_at_first_nothing_is_claimed(survey: Callable[[], Entry], module: Path, state: Path) -> None:
    entry = survey()
    assert (entry.state, entry.name, entry.arch, entry.version) == (State.UNKNOWN, "trtllm_comm", "sm_120a", "0.6.3")
    assert entry.reason.startswith("seen for the first time; 1 input watched")
    assert len(list((state / "caches").iterdir())) == 1


def test_the_same_content_is_fresh_whatever_the_date(survey: Callable[[], Entry], module: Path, site: Path) -> None:
    survey()
    os.utime(header(site), (time.time() + 1000, time.time() + 1000))
    assert survey().state is State.FRESH


def test_another_content_is_stale_whatever_the_date(survey: Callable[[], Entry], module: Path, site: Path) -> None:
    survey()
    before = header(site).stat()
    header(site).write_bytes(b"#define OPENED\n")
    os.utime(header(site), ns=(before.st_atime_ns, before.st_mtime_ns))
    entry = survey()
    assert entry.state is State.STALE
    assert entry.reason.startswith("comm.cuh has another content since")
    header(site).write_bytes(b"#define CLOSED\n")
    assert survey().state is State.FRESH  # put back, it fits again


def test_made_anew_from_changed_inputs_is_not_claimed_either(
    survey: Callable[[], Entry], module: Path, site: Path
) -> None:
    survey()
    header(site).write_bytes(b"#define OPENED\n")
    (module / "trtllm_comm.so").write_bytes(b"other machine code")
    assert survey().state is State.UNKNOWN
    assert survey().state is State.FRESH  # from here on its inputs are known


def test_made_anew_from_the_same_inputs_is_fresh(survey: Callable[[], Entry], module: Path) -> None:
    survey()
    (module / "trtllm_comm.so").write_bytes(b"other machine code")
    assert survey().reason == "made anew since it was last seen, from the same 1 input"


def test_an_edited_package_is_named_at_first_sight(survey: Callable[[], Entry], module: Path, site: Path) -> None:
    header(site).write_bytes(b"#define OPENED\n")
    entry = survey()
    assert entry.state is State.UNKNOWN
    assert entry.reason.startswith("comm.cuh is edited, and whether it was when this was made is not known")


def test_an_input_that_is_gone(survey: Callable[[], Entry], module: Path, site: Path) -> None:
    header(site).unlink()
    entry = survey()
    assert entry.state is State.STALE
    assert entry.reason.endswith("which it was made from, is gone")


def test_another_version_is_installed(survey: Callable[[], Entry], module: Path, site: Path) -> None:
    old = site / "flashinfer_python-0.6.3.dist-info"
    (old / "METADATA").write_text("Name: flashinfer-python\nVersion: 0.6.4+cu130\n")
    entry = survey()
    assert (entry.state, entry.reason) == (
        State.STALE,
        "made by flashinfer-python 0.6.3, and 0.6.4+cu130 is installed",
    )
    (old / "METADATA").write_text("Name: flashinfer-python\nVersion: 0.6.3+cu130\n")
    assert survey().state is State.UNKNOWN  # a local label is no other version


def test_what_was_never_finished(survey: Callable[[], Entry], module: Path) -> None:
    (module / "trtllm_comm.so").unlink()
    assert survey().reason == "it holds no finished result"


def test_what_says_nothing_is_unknown(survey: Callable[[], Entry], module: Path) -> None:
    (module / "build.ninja").unlink()
    assert survey().reason == "nothing there says what it was made from"


def test_a_loaded_library_is_busy(survey: Callable[[], Entry], module: Path) -> None:
    code = f"import mmap; f = open('{module}/trtllm_comm.so'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
    code += "; f.close(); print('up', flush=True); import time; time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout
        child.stdout.readline()
        entry = survey()
        assert (entry.state, entry.reason) == (State.BUSY, f"process {child.pid} has it loaded")
        with pytest.raises(Refusal, match="is in use"):
            purge.chosen([entry], ["flashinfer-python"])
    finally:
        child.kill()
        child.communicate()
    assert survey().state is not State.BUSY


def test_a_held_lock_is_busy_and_a_left_one_is_not(survey: Callable[[], Entry], module: Path) -> None:
    lock = module.parent / "tmp/trtllm_comm.lock"
    lock.parent.mkdir()
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert usage.lock_holders([lock]) == {lock: os.getpid()}
        assert survey().reason == f"process {os.getpid()} holds trtllm_comm.lock"
    assert survey().state is not State.BUSY


def test_an_unknown_cache_is_refused(site: Path) -> None:
    with pytest.raises(Refusal, match="no cache named nope"):
        freshness.survey(Environment((site,), None), {}, ["nope"])


def test_purge_takes_the_stale_entries_of_the_named_package_only(
    survey: Callable[[], Entry], module: Path, site: Path
) -> None:
    survey()
    other = module.parent / "page"
    shutil.copytree(module, other)
    (other / "page.so").write_bytes(b"x")
    header(site).write_bytes(b"#define OPENED\n")
    found = freshness.survey(Environment((site,), None), {"HOME": str(module.parents[5])}, ["flashinfer"])
    assert {entry.name: entry.state for entry in found} == {"page": State.UNKNOWN, "trtllm_comm": State.STALE}
    assert purge.chosen(found, ["torch"]) == ()
    doomed = purge.chosen(found, ["FlashInfer_Python"])
    assert [entry.name for entry in doomed] == ["trtllm_comm"]
    assert purge.remove(doomed) == doomed[0].size > 0
    assert sorted(path.name for path in module.parent.iterdir()) == ["page"]


def entry_at(root: Path, path: Path) -> Entry:
    return Entry("flashinfer", root, path.name, path, "flashinfer-python", "", "", 1, 0.0, State.STALE, "x")


def test_purge_follows_no_link_out_of_the_cache(tmp_path: Path) -> None:
    root, precious = tmp_path / "cache", tmp_path / "precious"
    (precious / "entry").mkdir(parents=True)
    (precious / "entry/file").touch()
    root.mkdir()
    (root / "ops").symlink_to(precious)
    with pytest.raises(Refusal, match="a link leads out of the cache"):
        purge.remove([entry_at(root, root / "ops/entry")])
    (root / "linked").symlink_to(precious)
    assert purge.remove([entry_at(root, root / "linked")]) == 1
    assert (precious / "entry/file").exists()
    assert not (root / "linked").is_symlink()


@pytest.mark.parametrize("name", ["", "..", "../precious"])
def test_purge_removes_neither_the_cache_itself_nor_what_is_beside_it(tmp_path: Path, name: str) -> None:
    root = tmp_path / "cache"
    root.mkdir()
    (tmp_path / "precious").mkdir()
    with pytest.raises(Refusal):
        purge.remove([entry_at(root, root / name)])
    assert root.exists()
    assert (tmp_path / "precious").exists()


def test_purge_checks_again_that_nobody_uses_it(module: Path, survey: Callable[[], Entry]) -> None:
    root = module.parents[3]
    entry = entry_at(root, module)
    child = subprocess.Popen(["sleep", "60"], cwd=module)
    try:
        with pytest.raises(Refusal, match=f"process {child.pid} has trtllm_comm"):
            purge.remove([entry])
    finally:
        child.kill()
        child.wait()
    assert module.exists()


@pytest.mark.parametrize(
    ("runtime", "fits"), [("nvidia_cuda_runtime-13.0.96", True), ("nvidia_cuda_runtime_cu12-12.9.79", False)]
)
def test_built_with_another_toolkit(
    survey: Callable[[], Entry], module: Path, site: Path, tmp_path: Path, runtime: str, fits: bool
) -> None:
    stub = tmp_path / "libcudart.so.13"
    command = ["gcc", "-shared", "-x", "c", "/dev/null", "-o"]
    subprocess.run([*command, stub, "-Wl,-soname,libcudart.so.13"], check=True)
    library = module / "trtllm_comm.so"
    subprocess.run(
        ["gcc", "-shared", "-Wl,--no-as-needed", "-x", "c", "/dev/null", "-x", "none", stub, "-o", library], check=True
    )
    name, version = runtime.rsplit("-", 1)
    info = site / f"{runtime}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {name.replace('_', '-')}\nVersion: {version}\n")
    entry = survey()
    assert (entry.state is State.STALE) is not fits
    if not fits:
        assert (
            entry.reason
            == "trtllm_comm.so is linked with libcudart.so.13, and this environment has the runtime of CUDA 12"
        )


def test_code_for_another_gpu_is_stale(survey: Callable[[], Entry], module: Path) -> None:
    (module / "trtllm_comm.so").write_bytes(library((b".nv_fatbin", fatbin((2, 89, 0)))))
    entry = survey()
    assert (entry.state, entry.reason) == (
        State.STALE,
        "trtllm_comm.so holds sm_89 and nothing that sm_120a can run",
    )
