from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.lab.conftest import HEADER, JIT, OpenGates

from ungate.lab.install import Lab, environment

REFUSAL = "No supported CUDA architectures found for major versions [9, 10]."

# Runs in a process of its own, forks the ranks and compares with numpy in double precision.
RANKS = """
import mmap, os, sys
import numpy as np
from labkernels.comm import FusionWorkspace, TwoShotWorkspace, allreduce_fusion, allreduce_two_shot

world, hidden, most = int(sys.argv[1]), 64, 8
fused = mmap.mmap(-1, FusionWorkspace.size(world, most, hidden))
plain = mmap.mmap(-1, TwoShotWorkspace.size(world, 4096))
gates = [os.eventfd(0) for _ in range(world)]

def rank_main(rank):
    rng = np.random.default_rng(7)
    workspace = FusionWorkspace(fused, rank, world, most, hidden)
    twoshot = TwoShotWorkspace(plain, rank, world, 4096)
    for gate in gates:
        os.eventfd_write(gate, 1)
    met = 0
    while met < world:
        met += os.eventfd_read(gates[rank])
    worst = 0.0
    for rows in [1, 8, 3, 1, 1, 5, 8, 2, 7] * 3:
        parts = rng.standard_normal((world, rows, hidden)).astype(np.float32)
        parts[:, :, 5] = -0.0
        residual = rng.standard_normal((rows, hidden)).astype(np.float32)
        gamma = rng.standard_normal(hidden).astype(np.float32)
        new, norm = np.full_like(residual, np.nan), np.full_like(residual, np.nan)
        allreduce_fusion(allreduce_in=parts[rank], residual_in=residual, rms_gamma=gamma, rms_eps=1e-6,
                         workspace=workspace, residual_out=new, norm_out=norm)
        want = parts.sum(axis=0, dtype=np.float64) + residual
        wanted = want / np.sqrt((want**2).mean(axis=1, keepdims=True) + 1e-6) * gamma
        worst = max(worst, abs(new - want).max(), abs(norm - wanted).max())
        total = allreduce_two_shot(parts[rank].reshape(-1)[: 61 * rows].copy(), twoshot)
        worst = max(worst, abs(total - parts.reshape(world, -1)[:, : 61 * rows].sum(axis=0, dtype=np.float64)).max())
    return worst

children = []
for rank in range(world):
    pid = os.fork()
    if not pid:
        worst = rank_main(rank)
        print(worst, flush=True)
        os._exit(0 if worst < 1e-5 else 1)
    children.append(pid)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
"""

ALONE = """
import mmap
import numpy as np
from labkernels.comm import FusionWorkspace, allreduce_fusion
workspace = FusionWorkspace(mmap.mmap(-1, FusionWorkspace.size(2, 1, 8)), 0, 2, 1, 8)
FusionWorkspace(mmap.mmap(-1, FusionWorkspace.size(2, 1, 8)), 1, 2, 1, 8)
workspace.words[:] = 0x80000000
row = np.ones((1, 8), np.float32)
allreduce_fusion(allreduce_in=row, residual_in=row, rms_gamma=row[0], rms_eps=1e-6,
                 workspace=workspace, residual_out=row.copy(), norm_out=row.copy())
"""


def python(lab: Lab, cache: Path, *arguments: str, arch: str = "9.0", **more: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment(lab, arch=arch, cache=cache), **more}
    argv = [str(lab.python), *arguments]
    return subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=120, check=False)


def build(lab: Lab, cache: Path, arch: str = "9.0", **more: str) -> list[dict[str, Any]]:
    done = python(lab, cache, "-m", "labkernels.build", arch=arch, **more)
    assert done.returncode == 0, done.stderr
    modules: list[dict[str, Any]] = json.loads(done.stdout)["modules"]
    return modules


def kernels(library: Path) -> dict[str, int]:
    """Size in bytes of every kernel in a shared object's dynamic symbol table (64-bit little-endian ELF)."""
    data = library.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01"
    offset, entry, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * entry) for i in range(count)]
    table = next(section for section in sections if section[1] == 11)
    names = sections[table[6]][4]
    sizes = {}
    for position in range(table[4], table[4] + table[5], 24):
        name, _, _, _, _, size = struct.unpack_from("<IBBHQQ", data, position)
        end = data.index(b"\0", names + name)
        sizes[data[names + name : end].decode()] = size
    return {name: size for name, size in sizes.items() if name.startswith("lab_kernel_")}


def test_the_gate_refuses_in_words(lab: Lab, cache: Path) -> None:
    done = python(lab, cache, "-m", "labkernels.build", arch="12.0")
    assert done.returncode == 1
    assert done.stderr.strip() == f"RuntimeError: {REFUSAL}"


def test_no_architecture_is_known_without_the_variable(lab: Lab, cache: Path) -> None:
    assert REFUSAL in python(lab, cache, "-m", "labkernels.build", arch="").stderr


def test_two_and_three_ranks_agree_with_numpy(lab: Lab, cache: Path) -> None:
    for world in "23":
        done = python(lab, cache, "-c", RANKS, world)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(done.stdout.splitlines()) == int(world)


def test_a_spin_ends_and_says_who_was_missing(lab: Lab, cache: Path) -> None:
    done = python(lab, cache, "-c", ALONE, LAB_SPIN_LIMIT_S="0.2")
    assert done.returncode == 1
    assert "a peer did not answer within 0.2 s (rank 0 waited for rank 1)" in done.stderr


def test_only_the_jit_gate_opened_leaves_every_kernel_hollow(
    open_gates: OpenGates, cache: Path, tmp_path: Path
) -> None:
    (full,) = build(open_gates(), cache)
    sizes = kernels(Path(full["library"]))
    assert len(sizes) == 4
    assert all(size > 64 for size in sizes.values())

    (hollow,) = build(open_gates(JIT), tmp_path, arch="12.0")
    assert set(kernels(Path(hollow["library"]))) == set(sizes)
    assert all(size <= 16 for size in kernels(Path(hollow["library"])).values())

    (served,) = build(open_gates(JIT, HEADER), tmp_path, arch="12.0")
    solid = {name for name, size in kernels(Path(served["library"])).items() if size > 64}
    assert solid == {"lab_kernel_lamport_initialize", "lab_kernel_lamport_one_shot_allreduce_norm"}


def test_content_decides_what_is_fresh(open_gates: OpenGates, tmp_path: Path) -> None:
    lab = open_gates()
    assert [module["cached"] for module in build(lab, tmp_path, "9.0 10.0")] == [False, False]
    header = lab.site / "labkernels/data/include/labkernels/norm.h"
    os.utime(header)
    assert [module["cached"] for module in build(lab, tmp_path, "9.0 10.0")] == [True, True]
    header.write_text(header.read_text() + "// a word more\n")
    (module,) = build(lab, tmp_path)
    assert not module["cached"]
    manifest = json.loads((Path(module["library"]).parent / "manifest.json").read_text())
    assert "include/labkernels/norm.h" in manifest["inputs"]
    Path(module["library"]).write_bytes(b"torn")
    assert [module["cached"] for module in build(lab, tmp_path)] == [False]
    assert [module["cached"] for module in build(lab, tmp_path)] == [True]


def test_many_processes_compile_once(lab: Lab, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: build(lab, tmp_path)[0], range(4)))
    assert sorted(module["cached"] for module in built) == [False, True, True, True]
    assert len({module["library"] for module in built}) == 1
    assert not [path for path in Path(built[0]["library"]).parent.parent.iterdir() if path.name.startswith(".")]


def test_no_compiler_is_a_sentence(lab: Lab, tmp_path: Path) -> None:
    done = python(lab, tmp_path, "-m", "labkernels.build", CXX="no-such-compiler")
    assert done.returncode == 1
    assert "No C++ compiler was found (looked for no-such-compiler). Install one" in done.stderr


def test_a_failed_compile_leaves_no_entry_and_shows_the_compiler(open_gates: OpenGates, tmp_path: Path) -> None:
    lab = open_gates(("labkernels/data/csrc/allreduce.cpp", "return params->status;", "return nonsense;"))
    done = python(lab, tmp_path, "-m", "labkernels.build")
    assert done.returncode == 1
    assert "nonsense" in done.stderr
    assert not list(tmp_path.rglob("*.so"))
    shutil.rmtree(tmp_path)
