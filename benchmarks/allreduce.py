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
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if (ROOT / "allreduce" / "src").is_dir():
    sys.path.insert(0, str(ROOT / "allreduce" / "src"))
    os.environ["PYTHONPATH"] = f"{ROOT / 'allreduce' / 'src'}:{os.environ.get('PYTHONPATH', '')}"

from ungate_allreduce.ahead import compile_all  # noqa: E402
from ungate_allreduce.compile import nvrtc  # noqa: E402
from ungate_allreduce.screen import KINDS  # noqa: E402
from ungate_allreduce.trial import Expected, Trial, matrix, messages  # noqa: E402
from ungate_allreduce.variant import Dtype, Line, Variant, fitting  # noqa: E402

KIB = 1024
SIZES = (8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)


def say(text: str) -> None:
    print(text, flush=True)


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
    from dataclasses import replace

    return [(replace(variant, virtual=variant.world), size) for variant, size in matrix(worlds)]


def candidates(world: int, hidden: int, rows: int, line: Line, shots: int) -> list[Variant]:
    """Launch shapes to try for one fused bfloat16 message."""
    out = []
    for threads in (128, 256, 512):
        for split in (1, 2, 4, 8):
            if rows * split > 128 or hidden // split < 512:
                continue
            variant = fitting(Variant(world, Dtype.BFLOAT16, line, shots, hidden, threads, split))
            if variant.split == split and variant.lines_a_thread * int(line) <= 16:
                out.append(variant)
    return list(dict.fromkeys(out))


def buffers(variant: Variant, rows: int, ranks: int) -> list[dict[str, int]]:
    import torch

    out = []
    count = rows * (variant.hidden or 1)
    for _ in range(ranks):
        tensors = {
            name: torch.randn(count, device="cuda").bfloat16() for name in ("input", "residual", "out", "residual_out")
        }
        tensors["weight"] = torch.randn(max(variant.hidden, 1), device="cuda").bfloat16()
        KEEP.append(tensors)
        out.append({name: tensor.data_ptr() for name, tensor in tensors.items()})
    return out


KEEP: list[Any] = []


def ready_variants(worlds: tuple[int, ...]) -> list[tuple[Variant, int, int]]:
    """Frozen kernels of one rank whose peers are there: (variant, rows, bytes)."""
    from dataclasses import replace

    out = []
    for world in worlds:
        for size in SIZES:
            rows = size // (2 * 4096)
            for line in (Line.LL8, Line.F16):
                for shots in (1, 2) if world >= 4 else (1,):
                    out += [(replace(v, frozen=True), rows, size) for v in candidates(world, 4096, rows, line, shots)]
    return out


def time_ready(worlds: tuple[int, ...], primitives: Any) -> list[dict[str, Any]]:
    from ungate_allreduce.measure import graph_us
    from ungate_allreduce.virtual import VirtualWorld

    best: dict[tuple[int, int, Line, int], dict[str, Any]] = {}
    made: dict[int, VirtualWorld] = {}
    for variant, rows, size in ready_variants(worlds):
        world = made.setdefault(variant.world, VirtualWorld(variant.world, 512 * KIB, 1.0))
        world.arrive(variant, rows)
        addresses = buffers(variant, rows, 1) * variant.world
        us = statistics.median(
            graph_us(lambda: world.launch(variant, rows, addresses, epsilon=1e-6, ranks=[0]), samples=5)  # noqa: B023
        )
        if any(world.reports()):
            say(f"  gave up: {variant} {world.reports()}")
            world.clear()
            continue
        KEEP.clear()
        key = (variant.world, size, variant.line, variant.shots)
        if key not in best or us < best[key]["us"]:
            formula = primitives.formula(variant.world, size, variant.line, variant.shots)
            floor = primitives.ready_floor(variant.world, size, variant.line, variant.shots)
            best[key] = {
                "world": variant.world, "bytes": size, "format": variant.line.name, "shots": variant.shots,
                "us": round(us, 3), "threads": variant.threads, "split": variant.split,
                "formula_us": round(formula, 3), "over_formula": round(us / formula, 3),
                "strict_floor_us": round(floor, 3), "over_strict_floor": round(us / floor, 3),
            }  # fmt: skip
    rows_out = list(best.values())
    for row in rows_out:
        say(
            f"  ready N={row['world']} {row['bytes'] // KIB:>4} KB {row['format']} {row['shots']}-shot"
            f" {row['us']:7.2f} us"
            f"  formula x{row['over_formula']:.2f}  strict floor x{row['over_strict_floor']:.2f}"
            f"  ({row['threads']} threads, split {row['split']})"
        )
    return rows_out


def one_launch_variants(worlds: tuple[int, ...]) -> list[tuple[Variant, int, int]]:
    from dataclasses import replace

    out = []
    for world in worlds:
        for size in SIZES[:3]:
            rows = size // (2 * 4096)
            for line in (Line.LL8, Line.F16):
                for shots in (1, 2) if world >= 4 else (1,):
                    for variant in candidates(world, 4096, rows, line, shots):
                        if rows * variant.split * world <= 132 and variant.threads >= 256:
                            out.append((replace(variant, virtual=world), rows, size))
    return out


def time_virtual(worlds: tuple[int, ...]) -> list[dict[str, Any]]:
    """All virtual ranks in one launch, and each on a stream and graph of its own."""
    import torch

    from ungate_allreduce.measure import capture, graph_us
    from ungate_allreduce.virtual import VirtualWorld

    best: dict[tuple[int, int, Line, int], dict[str, Any]] = {}
    made: dict[int, VirtualWorld] = {}
    for variant, rows, size in one_launch_variants(worlds):
        world = made.setdefault(variant.world, VirtualWorld(variant.world, 512 * KIB, 1.0))
        addresses = buffers(variant, rows, variant.world)
        us = statistics.median(
            graph_us(lambda: world.launch(variant, rows, addresses, epsilon=1e-6), nodes=50, samples=5)  # noqa: B023
        )
        if any(world.reports()):
            say(f"  gave up: {variant} {world.reports()}")
            world.clear()
            continue
        KEEP.clear()
        key = (variant.world, size, variant.line, variant.shots)
        if key not in best or us < best[key]["us"]:
            best[key] = {
                "world": variant.world, "bytes": size, "format": variant.line.name, "shots": variant.shots,
                "us": round(us, 3), "threads": variant.threads, "split": variant.split,
            }  # fmt: skip
    for key, row in best.items():
        if row["bytes"] != 16 * KIB:
            continue
        world = made[key[0]]
        alone = fitting(Variant(key[0], Dtype.BFLOAT16, key[2], key[3], 4096, row["threads"], row["split"]))
        rows = row["bytes"] // 8192
        addresses = buffers(alone, rows, alone.world)
        world.kernel(alone)
        graphs = []
        for rank in range(alone.world):
            stream = world.streams[rank]

            def enqueue(rank: int = rank, stream: Any = stream) -> None:
                world.launch(alone, rows, addresses, epsilon=1e-6, ranks=[rank], stream=stream)  # noqa: B023

            graphs.append(capture(enqueue, 50, stream))
        torch.cuda.synchronize()
        times = []
        for _ in range(7):
            spans = []
            for rank, graph in enumerate(graphs):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                with torch.cuda.stream(world.streams[rank]):
                    begin.record()
                    graph.replay()
                    end.record()
                spans.append((begin, end))
            torch.cuda.synchronize()
            times.append(1e3 * min(begin.elapsed_time(end) for begin, end in spans) / 50)
        row["streams_us"] = round(statistics.median(times), 3)
        if any(world.reports()):
            row["streams_us"] = None
            row["streams_reports"] = world.reports()
            world.clear()
        KEEP.clear()
    for row in best.values():
        say(
            f"  virtual N={row['world']} {row['bytes'] // KIB:>4} KB {row['format']} {row['shots']}-shot one launch "
            f"{row['us']:7.2f} us, streams {row.get('streams_us')} us"
        )
    return list(best.values())


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
        wanted += [v for v, _, _ in ready_variants((2, 4, 8))] + [v for v, _, _ in one_launch_variants((2, 4, 8))]
    from ungate_allreduce.replay import mix

    wanted += [shape.variant(world) for world in (2, 4, 8) for shape in mix(world)]
    result["build"] = build_all(wanted, arch)
    if "check" in options.steps:
        result["check"] = check_virtual(worlds)
        shown = {**result["check"], "failures": result["check"]["failures"][:4]}
        say(f"check: {json.dumps(shown, indent=1)}")
        result["abort"] = check_abort()
    if "time" in options.steps:
        primitives = measure_primitives()
        result["primitives"] = primitives.record()
        say(f"primitives: {json.dumps(result['primitives'])}")
        result["ready"] = time_ready((2, 4, 8), primitives)
        result["virtual"] = time_virtual((2, 4, 8))
    if "endure" in options.steps:
        result["endurance"] = [endure_virtual(n, options.replays, 20_000) for n in (2, 4, 8)]
    return result


def several_gpus(options: argparse.Namespace) -> dict[str, Any]:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import allreduce_pair

    return {"environment": environment(), **allreduce_pair.run_all(options, build_all)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--out", type=Path)
    steps = ["check", "ops", "fail", "nccl", "time", "peer", "flashinfer", "decode", "endure"]
    parser.add_argument("--steps", nargs="+", default=steps)
    parser.add_argument("--replays", type=int, default=20_000, help="graph replays of the endurance check")
    options = parser.parse_args()
    result = one_gpu(options) if options.gpus == 1 else several_gpus(options)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
