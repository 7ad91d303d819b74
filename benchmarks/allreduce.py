"""ungate-allreduce on one GPU and on several: correctness first, then microseconds against the floor and NCCL.

    python benchmarks/allreduce.py --out results.json            # one GPU: N virtual ranks
    python benchmarks/allreduce.py --gpus 2 --out results.json   # one process a GPU, NCCL arms too

Needs torch with CUDA and this package; prints a table and writes JSON with the environment.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if (ROOT / "allreduce" / "src").is_dir():
    sys.path.insert(0, str(ROOT / "allreduce" / "src"))
    os.environ["PYTHONPATH"] = f"{ROOT / 'allreduce' / 'src'}:{os.environ.get('PYTHONPATH', '')}"

from allreduce_times import (  # noqa: E402
    DECODE,
    KIB,
    MESSAGES,
    one_launch_variants,
    ready_variants,
    say,
    time_ready,
    time_virtual,
)

from ungate_allreduce.ahead import compile_all  # noqa: E402
from ungate_allreduce.compile import nvrtc  # noqa: E402
from ungate_allreduce.screen import KINDS  # noqa: E402
from ungate_allreduce.trial import Expected, Trial, matrix, messages  # noqa: E402
from ungate_allreduce.variant import Dtype, Line, Variant, fitting  # noqa: E402


def environment() -> dict[str, Any]:
    """What the figures hold for; no host name, no path."""
    import torch

    from ungate_allreduce.driver import driver

    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name(0),
        "gpus": torch.cuda.device_count(),
        "driver_cuda": driver().version(),
        "torch": torch.__version__,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "nvrtc": nvrtc().version,
        "cpus": os.cpu_count(),
    }


def build_all(variants: list[Variant], arch: int) -> dict[str, Any]:
    """Compile in parallel, so that loading is a file read."""
    begin = time.monotonic()
    kernels = compile_all(variants, arch)
    result = {"kernels": kernels, "wall_s": time.monotonic() - begin}
    say(f"built {kernels} kernels in {result['wall_s']:.1f} s")
    return result


# --- one GPU ----------------------------------------------------------------------------------------------------


def check_virtual(worlds: tuple[int, ...]) -> dict[str, Any]:
    """All ranks of a world in one launch, against the bitwise reference, on every kind of message."""
    import torch

    from ungate_allreduce.screen import EPSILON
    from ungate_allreduce.virtual import VirtualWorld

    totals: dict[str, Any] = {"kernels": 0, "calls": 0, "elements": 0, "wrong": 0, "ranks_differ": 0, "failures": []}
    made: dict[int, VirtualWorld] = {}
    for seed, (variant, size) in enumerate(virtual_matrix(worlds)):
        world = made.setdefault(variant.world, VirtualWorld(variant.world, 512 * KIB, 2.0))
        totals["kernels"] += 1
        for message in messages(variant, size, KINDS, 100 * seed, 48 * KIB):
            expected = Expected(message, variant)
            offset = 0 if variant.aligned or seed % 2 else 1
            trials = [Trial(expected, variant, rank, offset=offset) for rank in range(variant.world)]
            rows = trials[0].rows
            try:
                world.launch(variant, rows, [trial.addresses for trial in trials], epsilon=EPSILON)
                torch.cuda.synchronize()
            except Exception as error:
                totals["failures"].append(f"{variant} {message.kind} {rows}: {error}")
                return totals
            counts = [trial.wrong() for trial in trials]
            wrong = sum(sum(count.values()) for count in counts)
            differ = sum(trial.raw() != trials[0].raw() for trial in trials)
            totals["calls"] += 1
            totals["elements"] += variant.world * sum(array.size for array in expected.outputs.values())
            totals["wrong"] += wrong
            totals["ranks_differ"] += differ
            if (wrong or differ or any(world.reports())) and len(totals["failures"]) < 20:
                totals["failures"].append(
                    f"{variant} {message.kind} rows {rows}: wrong {counts}, differ {differ}, reports {world.reports()}"
                )
                world.clear()
    return totals


def virtual_matrix(worlds: tuple[int, ...]) -> list[tuple[Variant, int]]:
    return [(replace(variant, virtual=variant.world), size) for variant, size in matrix(worlds)]


def endure_virtual(world_size: int, replays: int, skew_ns: int) -> dict[str, Any]:
    """Each virtual rank on a stream and graph of its own, new data and delay each replay."""
    import torch

    from ungate_allreduce.measure import capture
    from ungate_allreduce.replay import Endurance, mix
    from ungate_allreduce.virtual import VirtualWorld

    world = VirtualWorld(world_size, 512 * KIB, 1.5)
    shapes = mix(world_size)
    ranks = [Endurance(rank, world_size, shapes, skew_ns) for rank in range(world_size)]
    for shape in shapes:
        world.kernel(shape.variant(world_size))
    for name in ("next", "scramble", "verify"):
        from ungate_allreduce.replay import _function

        _function(name, ranks[0].arch, ranks[0].device)
    graphs = []
    for rank, endurance in enumerate(ranks):
        stream = world.streams[rank]

        def enqueue(rank: int = rank, stream: Any = stream, endurance: Endurance = endurance) -> None:
            def launch(variant: Variant, rows: int, addresses: dict[str, int]) -> None:
                world.launch(
                    variant, rows, [addresses] * world_size, epsilon=1e-6, ranks=[rank], stream=stream, grid=16
                )

            endurance.enqueue(launch, stream)

        graphs.append(capture(enqueue, 1, stream))
    torch.cuda.synchronize()
    begin = time.monotonic()
    for start in range(0, replays, 50):
        for _ in range(min(50, replays - start)):
            for rank, graph in enumerate(graphs):
                with torch.cuda.stream(world.streams[rank]):
                    graph.replay()
        torch.cuda.synchronize()
        if any(world.reports()):
            break
    results = [endurance.result() for endurance in ranks]
    out = {
        "world": world_size, "replays": replays, "skew_us": skew_ns / 1e3, "wrong_words": sum(w for w, _ in results),
        "calls_verified": sum(c for _, c in results), "reports": world.reports(),
        "seconds": round(time.monotonic() - begin, 1),
    }  # fmt: skip
    say(f"  endurance N={world_size}: {out}")
    world.close()
    return out


def check_abort() -> dict[str, Any]:
    """One rank of two never arrives: how long until the kernel ends, what it reports, what the outputs hold."""
    import torch

    from ungate_allreduce.screen import draw
    from ungate_allreduce.virtual import VirtualWorld

    world = VirtualWorld(2, 512 * KIB, 1.0)
    out: dict[str, Any] = {}
    for line in (Line.LL8, Line.F16):
        variant = fitting(Variant(2, Dtype.BFLOAT16, line, 1, 4096, 512))
        message = draw("normal", 2, 3, 4096, Dtype.BFLOAT16, 1)
        trial = Trial(Expected(message, variant), variant, 0)
        world.kernel(variant)
        begin = time.monotonic()
        world.launch(variant, 3, [trial.addresses] * 2, epsilon=1e-6, ranks=[0])
        torch.cuda.synchronize()
        seconds = time.monotonic() - begin
        held = trial.out["out"].view(torch.bfloat16)
        out[line.name] = {
            "seconds": round(seconds, 3),
            "report": world.reports()[0],
            "all_nan": bool(held.isnan().all()),
        }
        world.clear()
        # Another number of rows on the other rank: an error, and no rank may keep what it read.
        trials = [Trial(Expected(message, variant), variant, rank) for rank in range(2)]
        for rank, rows in ((0, 3), (1, 2)):
            world.launch(
                variant,
                [3, rows],
                [t.addresses for t in trials],
                epsilon=1e-6,
                ranks=[rank],
                stream=world.streams[rank],
            )
        torch.cuda.synchronize()
        out[line.name]["mismatch_reports"] = [report & 0xFF for report in world.reports()]
        world.clear()
    world.close()
    say(f"  abort: {out}")
    return out


def one_gpu(options: argparse.Namespace) -> dict[str, Any]:
    import torch

    from ungate_allreduce.measure import measure_primitives

    major, minor = torch.cuda.get_device_capability()
    arch = 10 * major + minor
    result: dict[str, Any] = {"environment": environment(), "mode": "one GPU, virtual ranks"}
    worlds = (2, 3, 4, 8, 16)
    wanted = [variant for variant, _ in virtual_matrix(worlds)] if "check" in options.steps else []
    if "time" in options.steps:
        wanted += [v for v, _, _ in one_launch_variants((2, 4, 8))]
    ready = {"time": ready_variants((2, 4, 8), MESSAGES), "hidden": ready_variants((2, 4, 8), DECODE)}
    wanted += [variant for step in ready if step in options.steps for variant, _ in ready[step]]
    from ungate_allreduce.replay import mix

    wanted += [shape.variant(world) for world in (2, 4, 8) for shape in mix(world)]
    result["build"] = build_all(wanted, arch)
    if "check" in options.steps:
        result["check"] = check_virtual(worlds)
        shown = {**result["check"], "failures": result["check"]["failures"][:4]}
        say(f"check: {json.dumps(shown, indent=1)}")
        result["abort"] = check_abort()
    if {"time", "hidden"} & set(options.steps):
        primitives = measure_primitives()
        result["primitives"] = primitives.record()
        say(f"primitives: {json.dumps(result['primitives'])}")
    if "time" in options.steps:
        result["ready"] = time_ready(ready["time"], primitives)
    if "hidden" in options.steps:
        result["hidden"] = time_ready(ready["hidden"], primitives)
    if "time" in options.steps:
        result["virtual"] = time_virtual((2, 4, 8))
    if "endure" in options.steps:
        result["endurance"] = [endure_virtual(n, options.replays, 20_000) for n in (2, 4, 8)]
    return result


def several_gpus(options: argparse.Namespace) -> dict[str, Any]:
    import allreduce_pair

    return {"environment": environment(), **allreduce_pair.run_all(options, build_all)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--out", type=Path)
    steps = ["check", "ops", "fail", "nccl", "time", "peer", "flashinfer", "decode", "hidden", "endure"]
    parser.add_argument("--steps", nargs="+", default=steps)
    parser.add_argument("--replays", type=int, default=20_000, help="graph replays of the endurance check")
    options = parser.parse_args()
    result = one_gpu(options) if options.gpus == 1 else several_gpus(options)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
