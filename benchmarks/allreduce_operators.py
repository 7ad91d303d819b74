"""Every torch operator against the bitwise reference: eager, in place, under torch.compile, in a graph.

A job of ``benchmarks/allreduce_pair.py``, which starts one process a GPU with a deadline.
"""

from __future__ import annotations

from typing import Any

from ungate_allreduce.variant import Dtype


def job_ops(rank: int, world: int, options: dict[str, Any]) -> dict[str, Any]:
    """Every operator against the bitwise reference: eager, with outputs given, under torch.compile, in a graph."""
    import numpy as np
    import torch

    import ungate_allreduce as ua
    from ungate_allreduce import reference
    from ungate_allreduce.screen import EPSILON, differences, draw

    workspace = ua.Workspace.create(deadline_s=30.0)
    kinds = {torch.bfloat16: Dtype.BFLOAT16, torch.float16: Dtype.FLOAT16, torch.float32: Dtype.FLOAT32}
    out: dict[str, Any] = {"wrong": 0, "checked": 0}
    got: Any

    def compare(got: Any, want: Any, dtype: Dtype | None, what: str) -> None:
        raw = got.contiguous().view(torch.uint8).cpu().numpy().reshape(-1).view(want.dtype).reshape(want.shape)
        bad = differences(raw, want, dtype) if dtype is not None else int((raw != want).sum())
        out["checked"] += 1
        out["wrong"] += bad
        if bad:
            out[what] = bad

    for torch_dtype, dtype in kinds.items():
        message = draw("normal", world, 5, 4096, dtype, 3)

        def tensor(array: Any, torch_dtype: Any = torch_dtype) -> Any:
            return (
                torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).copy())
                .cuda()
                .view(torch_dtype)
                .reshape(array.shape)
            )

        x, residual, weight = tensor(message.inputs[rank]), tensor(message.residual), tensor(message.weight)
        total = reference.allreduce(message.inputs, dtype)
        compare(ua.all_reduce(x, workspace), total, dtype, f"all_reduce {dtype.name}")
        for gemma in (False, True):
            norm, new = reference.fused(message.inputs, message.residual, message.weight, EPSILON, dtype, gemma=gemma)
            got = ua.fused_allreduce_residual_rmsnorm(x, residual, weight, EPSILON, workspace, gemma=gemma)
            compare(got[0], norm, dtype, f"fused {dtype.name} gemma={gemma}")
            compare(got[1], new, dtype, f"residual {dtype.name} gemma={gemma}")
        y, new = reference.normalised(message.inputs, message.residual, message.weight, EPSILON, dtype)
        scale = torch.tensor([0.02], device="cuda")
        got = ua.fused_allreduce_residual_rmsnorm_fp8(x, residual, weight, EPSILON, workspace, scale)
        compare(got[0], reference.fp8_static(y, 0.02), None, f"fp8 {dtype.name}")
        codes, scales = reference.fp8_token(y)
        got = ua.fused_allreduce_residual_rmsnorm_fp8_token(x, residual, weight, EPSILON, workspace)
        compare(got[0], codes, None, f"fp8 token {dtype.name}")
        compare(got[1], scales.reshape(-1, 1), Dtype.FLOAT32, f"fp8 token scale {dtype.name}")
        codes, blocks = reference.nvfp4(y, 64.0)
        scale = torch.tensor([64.0], device="cuda")
        got = ua.fused_allreduce_residual_rmsnorm_nvfp4(x, residual, weight, EPSILON, workspace, scale)
        compare(got[0], codes, None, f"nvfp4 {dtype.name}")
        compare(got[1], blocks, None, f"nvfp4 scale {dtype.name}")
        # In place: the residual is updated where it is.
        copy = residual.clone()
        ua.fused_allreduce_residual_rmsnorm(
            x, copy, weight, EPSILON, workspace, out=torch.empty_like(x), residual_out=copy
        )
        compare(copy, new, dtype, f"in place {dtype.name}")
        empty = ua.all_reduce(x[:0], workspace)
        out["checked"] += 1
        out["wrong"] += int(empty.numel() != 0)

    def layer(x: Any, residual: Any, weight: Any) -> Any:
        a, b = torch.ops.ungate_allreduce.fused_allreduce_residual_rmsnorm(
            x * 1.0, residual, weight, EPSILON, workspace.handle
        )
        return a * 1.0, b

    message = draw("normal", world, 3, 4096, Dtype.BFLOAT16, 9)
    x, residual, weight = (
        torch.from_numpy(a.view(np.int16).copy()).cuda().view(torch.bfloat16)
        for a in (message.inputs[rank], message.residual, message.weight)
    )
    norm, new = reference.fused(message.inputs, message.residual, message.weight, EPSILON, Dtype.BFLOAT16)
    try:
        compiled = torch.compile(layer, fullgraph=True)
        got = compiled(x, residual, weight)
        compare(got[0], norm, Dtype.BFLOAT16, "compiled")
        compare(got[1], new, Dtype.BFLOAT16, "compiled residual")
        out["torch.compile"] = "fullgraph"
    except Exception as error:
        out["torch.compile"] = f"{type(error).__name__}: {str(error)[:300]}"
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            got = ua.fused_allreduce_residual_rmsnorm(x, residual, weight, EPSILON, workspace)
        for _ in range(3):
            got[0].fill_(7)
            graph.replay()
    torch.cuda.synchronize()
    compare(got[0], norm, Dtype.BFLOAT16, "graph")
    second = ua.Workspace.create(deadline_s=30.0)
    compare(
        ua.all_reduce(x, second),
        reference.allreduce(message.inputs, Dtype.BFLOAT16),
        Dtype.BFLOAT16,
        "second workspace",
    )
    workspace.check()
    second.check()
    second.close()
    out["fallback"] = _fallback(rank, world)
    return out


def _fallback(rank: int, world: int) -> dict[str, Any]:
    """What the table or the size leaves to NCCL: plain and fused messages, too large for the workspace and not."""
    import torch
    import torch.distributed as dist

    import ungate_allreduce as ua
    from ungate_allreduce.screen import EPSILON

    group = dist.new_group(backend="nccl")
    workspace = ua.Workspace.create(max_bytes=64 << 10, deadline_s=30.0, fallback=group)
    out: dict[str, Any] = {}
    for rows in (1, 8, 9, 256):
        inputs = [
            torch.randn((rows, 4096), generator=torch.Generator().manual_seed(rows + r)).bfloat16().cuda()
            for r in range(world)
        ]
        residual, weight = torch.randn_like(inputs[0]), torch.rand(4096, device="cuda").bfloat16()
        dist.broadcast(residual, 0, group=group)
        dist.broadcast(weight, 0, group=group)
        given = inputs[rank].clone()
        total = sum(one.double() for one in inputs)
        wide = total.bfloat16().double() + residual.double()
        norm = wide * (wide.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * weight.double()
        plain = ua.all_reduce(given, workspace)
        got, new = ua.fused_allreduce_residual_rmsnorm(given, residual, weight, EPSILON, workspace)
        kept = bool((given == inputs[rank]).all())
        errors = [
            float(((a.double() - b).abs() / (1 + b.abs())).max()) for a, b in ((plain, total), (got, norm), (new, wide))
        ]
        out[str(rows)] = {"error": round(max(errors), 5), "right": max(errors) < 0.02 and kept}
    workspace.check()
    workspace.close()
    torch.cuda.synchronize()
    dist.destroy_process_group(group)
    return out
