"""Times on one GPU: one rank whose peers' lines are there, and all ranks in one launch. Run by ``allreduce.py``."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from ungate_allreduce.tuner import PAUSES
from ungate_allreduce.variant import Dtype, Line, Variant, fitting

KIB = 1024
SIZES = (8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)
MESSAGES = tuple((size // 8192, 4096) for size in SIZES)
"""Rows and hidden size, bfloat16."""
DECODE = tuple((rows, hidden) for hidden in (2048, 5120, 7168) for rows in (1, 4, 16))
"""Small decode batches at the hidden sizes of other models."""


def say(text: str) -> None:
    """A line of progress at once."""
    print(text, flush=True)


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


def ready_variants(worlds: tuple[int, ...], messages: tuple[tuple[int, int], ...]) -> list[tuple[Variant, int]]:
    """Frozen kernels of one rank whose peers are there, with their rows; ``messages`` are (rows, hidden)."""
    out = []
    for world in worlds:
        for rows, hidden in messages:
            for line in (Line.LL8, Line.F16):
                for shots in (1, 2) if world >= 4 else (1,):
                    out += [(replace(v, frozen=True), rows) for v in candidates(world, hidden, rows, line, shots)]
    return out


def time_ready(variants: list[tuple[Variant, int]], primitives: Any) -> list[dict[str, Any]]:
    from ungate_allreduce.measure import graph_us
    from ungate_allreduce.virtual import VirtualWorld

    best: dict[tuple[int, int, int, Line, int], dict[str, Any]] = {}
    made: dict[int, VirtualWorld] = {}
    for variant, rows in variants:
        size = 2 * rows * variant.hidden
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
        key = (variant.world, variant.hidden, size, variant.line, variant.shots)
        if key not in best or us < best[key]["us"]:
            formula = primitives.formula(variant.world, size, variant.line, variant.shots)
            floor = primitives.ready_floor(variant.world, size, variant.line, variant.shots)
            best[key] = {
                "world": variant.world, "hidden": variant.hidden, "rows": rows, "bytes": size,
                "format": variant.line.name, "shots": variant.shots,
                "us": round(us, 3), "threads": variant.threads, "split": variant.split,
                "formula_us": round(formula, 3), "over_formula": round(us / formula, 3),
                "strict_floor_us": round(floor, 3), "over_strict_floor": round(us / floor, 3),
            }  # fmt: skip
    rows_out = list(best.values())
    for row in rows_out:
        say(
            f"  ready N={row['world']} {row['rows']} x {row['hidden']} {row['bytes'] // KIB:>4} KB"
            f" {row['format']} {row['shots']}-shot"
            f" {row['us']:7.2f} us"
            f"  formula x{row['over_formula']:.2f}  strict floor x{row['over_strict_floor']:.2f}"
            f"  ({row['threads']} threads, split {row['split']})"
        )
    return rows_out


def one_launch_variants(worlds: tuple[int, ...]) -> list[tuple[Variant, int, int]]:
    """All ranks in one launch, as many blocks as one GPU holds at once: (variant, rows, bytes)."""
    out = []
    for world in worlds:
        for size in SIZES[:3]:
            rows = size // (2 * 4096)
            for line in (Line.LL8, Line.F16):
                for shots in (1, 2) if world >= 4 else (1,):
                    for variant in candidates(world, 4096, rows, line, shots):
                        if rows * variant.split * world <= 132:
                            pauses = (0, *PAUSES[:2]) if shots == 1 else (0,)
                            out += [(replace(variant, virtual=world, pause=pause), rows, size) for pause in pauses]
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
                "us": round(us, 3), "threads": variant.threads, "split": variant.split, "pause": variant.pause,
            }  # fmt: skip
    for key, row in best.items():
        if row["bytes"] != 16 * KIB:
            continue
        world = made[key[0]]
        alone = fitting(Variant(key[0], Dtype.BFLOAT16, key[2], key[3], 4096, row["threads"], row["split"]))
        alone = replace(alone, pause=row["pause"])
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
