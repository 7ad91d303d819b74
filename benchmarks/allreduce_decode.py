"""A decode loop of realistic shape, tensor parallel, in plain torch: milliseconds a token with each allreduce.

Each layer: qkv projection (column parallel), output projection (row parallel), allreduce + residual + RMSNorm,
gate and up projection, SiLU, down projection, allreduce + residual + RMSNorm. Attention itself is left out: it is the
same in all arms and needs a cache. Shapes are those of Llama 3 8B (hidden 4096) and 70B (8192), 32 layers of each.
All layers of a step are one CUDA graph; arms alternate round by round.

    python benchmarks/allreduce_decode.py --gpus 2 --out decode.json
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import allreduce_pair

LAYERS = 32
BATCHES = (1, 2, 4, 8, 16, 32, 64)
SHAPES = {4096: (32 + 16, 14336), 8192: (64 + 16, 28672)}
"""Hidden size: (query and key/value heads of 128 elements, width of the MLP)."""
ROUNDS = 10
STUDENT = 2.262
"""t for 95 % and nine degrees of freedom."""


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean and its 95 % interval over rounds."""
    mean = statistics.mean(values)
    half = STUDENT * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


class Model:
    """Random weights of one rank's share."""

    def __init__(self, hidden: int, world: int) -> None:
        import torch

        heads, width = SHAPES[hidden]
        self.hidden, self.width, self.local = hidden, width // world, hidden // world

        def weight(rows: int, columns: int) -> Any:
            return torch.empty(rows, columns, dtype=torch.bfloat16, device="cuda").normal_(0, columns**-0.5)

        self.layers = [
            (
                weight(heads * 128 // world, hidden),
                weight(hidden, hidden // world),
                weight(2 * self.width, hidden),
                weight(hidden, self.width),
                torch.ones(hidden, dtype=torch.bfloat16, device="cuda"),
                torch.ones(hidden, dtype=torch.bfloat16, device="cuda"),
            )
            for _ in range(LAYERS)
        ]

    def step(self, x: Any, residual: Any, reduce: Any) -> Any:
        """One token of every sequence through all layers."""
        import torch
        from torch.nn import functional

        for qkv, output, up, down, first, second in self.layers:
            heads = functional.linear(x, qkv)
            x, residual = reduce(functional.linear(heads[:, : self.local], output), residual, first)
            both = functional.linear(x, up)
            gate = functional.silu(both[:, : self.width]) * both[:, self.width :]
            x, residual = reduce(torch.nn.functional.linear(gate, down), residual, second)
        return x


def rank(number: int, world: int, options: dict[str, Any]) -> dict[str, Any]:
    """One rank: the arms alternate, NCCL as this process was configured and the host-staged operation."""
    import torch
    import torch.distributed as dist

    from ungate_allreduce import Workspace
    from ungate_allreduce.dispatch import local_norm
    from ungate_allreduce.ops import fused_allreduce_residual_rmsnorm
    from ungate_allreduce.plan import Choice, Table
    from ungate_allreduce.variant import Dtype

    entries = {key: Choice(**value) for key, value in options.get("entries", {}).items()}
    table = Table({}, entries) if entries else None
    group = dist.new_group(backend="nccl")
    workspace = Workspace.create(max_bytes=1 << 20, deadline_s=20.0, table=table)

    def by_nccl(x: Any, residual: Any, weight: Any) -> Any:
        dist.all_reduce(x, group=group)
        out, new = torch.empty_like(x), torch.empty_like(x)
        addresses = {
            "input": x.data_ptr(), "residual": residual.data_ptr(), "weight": weight.data_ptr(),
            "out": out.data_ptr(), "residual_out": new.data_ptr(),
        }  # fmt: skip
        local_norm(workspace, Dtype.BFLOAT16, x.shape[0], x.shape[1], addresses, 1e-6)
        return out, new

    def by_host(x: Any, residual: Any, weight: Any) -> Any:
        return fused_allreduce_residual_rmsnorm(x, residual, weight, 1e-6, workspace)

    arms = {"nccl": by_nccl, "host": by_host}
    rows: list[dict[str, Any]] = []
    stream = torch.cuda.Stream()
    try:
        with torch.inference_mode(), torch.cuda.stream(stream):
            for hidden in options["hidden"]:
                torch.manual_seed(number)
                model = Model(hidden, world)
                for batch in options["batches"]:
                    torch.manual_seed(1)
                    x = torch.randn(batch, hidden, device="cuda").bfloat16()
                    residual = torch.randn(batch, hidden, device="cuda").bfloat16()
                    graphs, last = {}, {}
                    for name, reduce in arms.items():
                        for _ in range(2):
                            model.step(x, residual, reduce)
                        torch.cuda.synchronize()
                        graph = torch.cuda.CUDAGraph()
                        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                            last[name] = model.step(x, residual, reduce)
                        graphs[name] = graph
                    times: dict[str, list[float]] = {name: [] for name in arms}
                    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    for turn in range(ROUNDS + 1):
                        order = list(arms) if turn % 2 else list(reversed(arms))
                        for name in order:
                            graphs[name].replay()
                            workspace.meeting.meet(0, 60.0, "a round")
                            begin.record()
                            for _ in range(options["steps"]):
                                graphs[name].replay()
                            end.record()
                            torch.cuda.synchronize()
                            if turn:
                                times[name].append(begin.elapsed_time(end) / options["steps"])
                    workspace.check()
                    everyone = workspace.group.gather(times)
                    slowest = {
                        name: [max(pair) for pair in zip(*(t[name] for t in everyone), strict=True)] for name in arms
                    }
                    gain = interval([100 * (a / b - 1) for a, b in zip(slowest["nccl"], slowest["host"], strict=True)])
                    difference = (last["nccl"].float() - last["host"].float()).norm() / last["nccl"].float().norm()
                    row = {
                        "hidden": hidden, "batch": batch, "layers": LAYERS,
                        "nccl_ms": round(statistics.mean(slowest["nccl"]), 4),
                        "host_ms": round(statistics.mean(slowest["host"]), 4),
                        "gain_percent": [round(value, 2) for value in gain],
                        "relative_difference": float(f"{float(difference):.2e}"),
                    }  # fmt: skip
                    rows.append(row)
                    if number == 0:
                        allreduce_pair.say(f"  {options['label']} {row}")
                    del graphs, last
                del model
                torch.cuda.empty_cache()
    finally:
        torch.cuda.synchronize()
        dist.destroy_process_group(group)
    return {"arm": options["label"], "rows": rows}


def run(world: int, hidden: tuple[int, ...], entries: dict[str, Any], best: dict[str, str]) -> dict[str, Any]:
    """Both NCCL arms, each in processes of its own: without a peer path (its best setting) and with one."""
    out = {}
    for label, env in (("no peer path", {**allreduce_pair.NO_P2P, **best}), ("peer path", {})):
        options = {"label": label, "hidden": hidden, "batches": BATCHES, "steps": 10, "entries": entries}
        out[label] = allreduce_pair.job("decode", world, 200.0, env, **options)
        if "failed" in out[label]:
            allreduce_pair.say(str(out[label]))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--hidden", type=int, nargs="+", default=[4096, 8192])
    parser.add_argument("--entries", type=Path, help="tuning table to use (JSON of ungate-allreduce tune)")
    parser.add_argument("--nccl-proto", default="LL", help="NCCL_PROTO of the arm without a peer path")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    entries = json.loads(options.entries.read_text())["entries"] if options.entries else {}
    result = run(options.gpus, tuple(options.hidden), entries, {"NCCL_PROTO": options.nccl_proto})
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
