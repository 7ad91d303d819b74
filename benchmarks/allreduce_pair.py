"""Several GPUs, one process each: the operation against NCCL, endurance, and what happens when a rank fails.

Run through ``benchmarks/allreduce.py --gpus 2``. Every job runs in processes of its own with a deadline, because
NCCL reads its settings once a process and a group that was not destroyed can hang the next start.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
SOURCE = HERE.parent.parent / "allreduce" / "src"
if SOURCE.is_dir():
    sys.path.insert(0, str(SOURCE))

from ungate_allreduce.plan import Choice, Table  # noqa: E402
from ungate_allreduce.tuner import Case, aligned_us, choices, paused, screen, time_choice  # noqa: E402
from ungate_allreduce.variant import Dtype, Line, Variant  # noqa: E402

KIB = 1024
NO_P2P = {"NCCL_P2P_DISABLE": "1"}
NCCL_ARMS: dict[str, dict[str, str]] = {
    "shm": NO_P2P,
    "shm LL": {**NO_P2P, "NCCL_PROTO": "LL"},
    "shm LL 1 channel": {**NO_P2P, "NCCL_PROTO": "LL", "NCCL_MAX_NCHANNELS": "1"},
    "shm LL tree": {**NO_P2P, "NCCL_PROTO": "LL", "NCCL_ALGO": "Tree"},
    "p2p": {},
    "p2p LL": {"NCCL_PROTO": "LL"},
}
"""Settings of NCCL. Best of the ``shm`` ones is the baseline without a peer path; ``p2p`` uses NVLink if there."""

LINES = (Line.LL8, Line.F16, Line.F12)
FUSED = [Case(Dtype.BFLOAT16, rows, 4096) for rows in (1, 2, 4, 8, 16, 32, 64)]
WIDE = [Case(Dtype.BFLOAT16, rows, 8192) for rows in (1, 4, 16, 32, 64)]
PLAIN = [Case(Dtype.BFLOAT16, size // 2) for size in (4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB)]


def say(text: str) -> None:
    print(text, flush=True)


# --- the parent ---------------------------------------------------------------------------------------------------


def job(name: str, world: int, deadline_s: float, env: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    """Run one job on ``world`` GPUs; what rank 0 returned, or why there is nothing."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        children = []
        for rank in range(world):
            argv = [sys.executable, str(HERE), "--job", name, "--rank", str(rank), "--world", str(world)]
            argv += ["--store", str(Path(folder) / "store"), "--out", str(out), "--options", json.dumps(options)]
            paths = f"{SOURCE}:{HERE.parent}:{os.environ.get('PYTHONPATH', '')}"
            children.append(subprocess.Popen(argv, env={**os.environ, **(env or {}), "PYTHONPATH": paths}))
        end = time.monotonic() + deadline_s
        late = False
        for child in children:
            try:
                child.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                late = True
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                child.wait()
        codes = [child.returncode for child in children]
        if not out.is_file():
            return {"failed": f"job {name}: exit codes {codes}{', past its deadline' if late else ''}"}
        result: dict[str, Any] = json.loads(out.read_text())
        if late:
            result["late"] = True
        return result


def wanted(world: int) -> list[Variant]:
    """Every kernel the jobs need, for building in parallel first."""
    from ungate_allreduce.plan import realise
    from ungate_allreduce.replay import mix

    out: list[Variant] = []
    for case in FUSED + WIDE + PLAIN:
        for choice in [c for one in choices(world, case, LINES) for c in (one, *paused(one))]:
            for push in (False, True):
                if push and (case not in FUSED[:4] + PLAIN[1:4] or choice.line == int(Line.F12)):
                    continue
                out.append(realise(choice, world, case.dtype, case.rows, hidden=case.hidden, push=push))
    out += [shape.variant(world) for shape in mix(world)]
    return out


def run_all(options: argparse.Namespace, build_all: Callable[[list[Variant], int], Any]) -> dict[str, Any]:
    """All jobs of ``options.steps``."""
    import torch

    world = options.gpus
    major, minor = torch.cuda.get_device_capability(0)
    result: dict[str, Any] = {"mode": f"{world} GPUs, one process each"}
    result["build"] = build_all(wanted(world), 10 * major + minor)

    def step(name: str, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        begin = time.monotonic()
        done = job(*arguments, **keywords)
        say(f"[{time.monotonic() - begin:5.1f} s] {name}: {json.dumps(done)[:700]}")
        return done

    if "ops" in options.steps:
        result["operators"] = step("operators", "ops", world, 120.0)
    if "fail" in options.steps:
        result["failures"] = {name: step(name, name, world, 60.0) for name in ("kill", "hang", "diverge")}
    if "nccl" in options.steps:
        result["nccl"] = {name: step(name, "nccl", world, 60.0, env) for name, env in NCCL_ARMS.items()}
    if "time" in options.steps:
        result["host"] = step("host", "time", world, 320.0, NO_P2P, transport="host")
    if "peer" in options.steps:
        for transport in ("push", "pull"):
            result[transport] = step(transport, "time", world, 90.0, transport=transport, short=True)
    if "flashinfer" in options.steps:
        # Its first call compiles, unless a cache of FlashInfer's has the modules.
        result["flashinfer"] = step("flashinfer", "flashinfer", world, 420.0)
    if "decode" in options.steps:
        import allreduce_decode

        result["decode"] = allreduce_decode.run(world, (4096, 8192), entries(world, result), best_setting(result))
    if "endure" in options.steps:
        result["endurance"] = step("endurance", "endure", world, 400.0, replays=options.replays)
    return result


def best_setting(result: dict[str, Any]) -> dict[str, str]:
    """The environment of the fastest NCCL arm without a peer path, by the mean over fused sizes."""
    arms = {
        name: statistics.mean(done["with_norm"].values())
        for name, done in result.get("nccl", {}).items()
        if name.startswith("shm") and "with_norm" in done
    }
    return NCCL_ARMS[min(arms, key=lambda name: arms[name])] if arms else {"NCCL_PROTO": "LL"}


def entries(world: int, result: dict[str, Any]) -> dict[str, Any]:
    """Table entries from the timed candidates: the fastest of every size."""
    out: dict[str, Any] = {}
    for row in result.get("host", {}).get("rows", []):
        if not row["hidden"] or not row["best"]:
            continue
        name, best = min(row["best"].items(), key=lambda item: item[1]["us"])
        key = Table.key(world, Dtype.BFLOAT16, "fused", row["bytes"])
        known = out.get(key)
        if known is None or best["us"] < known["us"]:
            line = int(Line[name.split()[0]])
            shots = 2 if "two-shot" in name else 1
            out[key] = {"line": line, "shots": shots, "us": best["us"]} | {
                k: best[k] for k in ("threads", "split", "vec", "lag", "pause")
            }
    return out


# --- one rank -----------------------------------------------------------------------------------------------------


def start(rank: int, world: int, store: str) -> None:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)


def job_nccl(rank: int, world: int, options: dict[str, Any]) -> dict[str, Any]:
    """NCCL's allreduce alone and followed by a residual add and norm kernel, as graph nodes."""
    import torch
    import torch.distributed as dist

    from ungate_allreduce import Workspace
    from ungate_allreduce.dispatch import local_norm

    workspace = Workspace.create(max_bytes=1024 * KIB, deadline_s=20.0)
    group = dist.new_group(backend="nccl")
    out: dict[str, Any] = {"plain": {}, "with_norm": {}}
    try:
        for case in PLAIN:
            tensor = torch.randn(case.rows, device="cuda").bfloat16()
            times = aligned_us(workspace, lambda: dist.all_reduce(tensor, group=group))  # noqa: B023
            out["plain"][str(case.size)] = statistics.median(times)
        for case in FUSED + WIDE:
            shape = (case.rows, case.hidden)
            tensors = {
                name: torch.zeros(shape, dtype=torch.bfloat16, device="cuda")
                for name in ("input", "residual", "out", "residual_out")
            }
            tensors["weight"] = torch.zeros(case.hidden, dtype=torch.bfloat16, device="cuda")
            addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}

            def both(case: Case = case, tensors: Any = tensors, addresses: Any = addresses) -> None:
                dist.all_reduce(tensors["input"], group=group)
                local_norm(workspace, case.dtype, case.rows, case.hidden, addresses, 1e-6)

            out["with_norm"][f"{case.rows}x{case.hidden}"] = statistics.median(aligned_us(workspace, both))
    finally:
        torch.cuda.synchronize()
        dist.destroy_process_group(group)
    out["norm_us"] = {}
    for case in FUSED + WIDE:
        tensors = {
            name: torch.zeros((case.rows, case.hidden), dtype=torch.bfloat16, device="cuda")
            for name in ("input", "residual", "out", "residual_out")
        }
        tensors["weight"] = torch.zeros(case.hidden, dtype=torch.bfloat16, device="cuda")
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        times = aligned_us(
            workspace,
            lambda: local_norm(workspace, case.dtype, case.rows, case.hidden, addresses, 1e-6),  # noqa: B023
        )
        out["norm_us"][f"{case.rows}x{case.hidden}"] = statistics.median(times)
    return out


def job_time(rank: int, world: int, options: dict[str, Any]) -> dict[str, Any]:
    """Every candidate: checked on every kind of message, then timed; the best of each format."""
    from ungate_allreduce import Workspace
    from ungate_allreduce.selftest import tear_test

    workspace = Workspace.create(transport=options["transport"], max_bytes=1024 * KIB, deadline_s=5.0)
    cases = FUSED[:4] + PLAIN[1:4] if options.get("short") else FUSED + WIDE + PLAIN
    tears = tear_test(workspace) if options["transport"] == "host" else None
    lines = LINES if tears and tears.whole else LINES[:2]
    if rank == 0:
        say(f"  {options['transport']}: {tears}")
    rows: list[dict[str, Any]] = []
    everything: list[list[Any]] = []
    checked = wrong = 0

    def attempt(case: Case, choice: Choice, best: dict[str, dict[str, Any]]) -> None:
        nonlocal checked, wrong
        checked += 1
        if screen(workspace, case, choice, kinds=("mixed",)):
            wrong += 1
            return
        samples = time_choice(workspace, case, choice, samples=5)
        us = statistics.median(samples)
        everything.append([case.rows, case.hidden, *asdict(choice).values(), round(us, 3)])
        name = Line(choice.line).name + (" two-shot" if choice.shots == 2 else "")
        if name not in best or us < best[name]["us"]:
            shape = {key: getattr(choice, key) for key in ("threads", "split", "vec", "lag", "pause")}
            best[name] = {"us": round(us, 3), "low": round(min(samples), 3), "high": round(max(samples), 3), **shape}

    for case in cases:
        best: dict[str, dict[str, Any]] = {}
        # The 12-byte format won nowhere on the fused messages, so it is not tried on the others.
        for choice in choices(world, case, lines if case in FUSED else LINES[:2]):
            attempt(case, choice, best)
        for name, fastest in list(best.items()):
            shape = {key: fastest[key] for key in ("threads", "split", "vec", "lag")}
            shots = 2 if "two-shot" in name else 1
            for later in paused(Choice(line=int(Line[name.split()[0]]), shots=shots, **shape)):
                attempt(case, later, best)
        rows.append({"rows": case.rows, "hidden": case.hidden, "bytes": case.size, "best": best})
        if rank == 0:
            say(f"  {options['transport']} {case.rows}x{case.hidden} {case.size // KIB} KB: {best}")
    workspace.close()
    columns = ["rows", "hidden", *asdict(Choice()), "us"]
    return {
        "tear_test": asdict(tears) if tears else None,
        "candidates": checked, "candidates_wrong": wrong, "rows": rows,
        "all": {"columns": columns, "values": everything},
    }  # fmt: skip


def job_endure(rank: int, world: int, options: dict[str, Any]) -> dict[str, Any]:
    """Graph replays with new data, random skew and changing shapes; every call verified on every rank."""
    import torch

    from ungate_allreduce import Workspace
    from ungate_allreduce.measure import capture
    from ungate_allreduce.replay import Endurance, mix

    workspace = Workspace.create(deadline_s=1.5)
    shapes = mix(world)
    endurance = Endurance(rank, world, shapes, 20_000)
    for shape in shapes:
        workspace.kernel(shape.variant(world))
    stream = torch.cuda.Stream()

    def call(variant: Variant, rows: int, addresses: dict[str, int]) -> None:
        workspace.launch(variant, rows, addresses, epsilon=1e-6)

    with torch.cuda.stream(stream):
        endurance.enqueue(call, stream)
        torch.cuda.synchronize()
        graph = capture(lambda: endurance.enqueue(call, stream), 1, stream)
        begin = time.monotonic()
        for _ in range(options["replays"] // 500):
            for _ in range(500):
                graph.replay()
            torch.cuda.synchronize()
            workspace.check()
    seconds = time.monotonic() - begin
    everyone = workspace.group.gather(endurance.result())
    return {
        "replays": options["replays"] // 500 * 500, "calls_a_replay": len(shapes), "skew_us": 20,
        "calls_verified": [calls for _, calls in everyone], "wrong_words": [wrong for wrong, _ in everyone],
        "seconds": round(seconds, 1),
    }  # fmt: skip


def worker(options: argparse.Namespace) -> int:
    import torch.distributed as dist

    start(options.rank, options.world, options.store)
    import allreduce_decode
    import allreduce_failures
    import allreduce_flashinfer
    import allreduce_operators

    jobs: dict[str, Callable[[int, int, dict[str, Any]], dict[str, Any]]] = {
        "nccl": job_nccl,
        "time": job_time,
        "endure": job_endure,
        "decode": allreduce_decode.rank,
        "flashinfer": allreduce_flashinfer.rank,
        "ops": allreduce_operators.job_ops,
        "kill": allreduce_failures.job_kill,
        "hang": allreduce_failures.job_hang,
        "diverge": allreduce_failures.job_diverge,
    }
    run = jobs[options.job]
    result = run(options.rank, options.world, json.loads(options.options))
    if options.rank == 0:
        scratch = options.out.with_suffix(".part")
        scratch.write_text(json.dumps(result))
        scratch.replace(options.out)
    if options.job == "kill":
        os._exit(0)  # the group has lost a rank; leaving it in order would wait for that one
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--options", default="{}")
    raise SystemExit(worker(parser.parse_args()))
