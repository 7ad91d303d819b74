"""From tensors to one launch: the table's choice, the kernel, the addresses; or the group's own allreduce."""

from __future__ import annotations

from typing import Any

from .errors import Unsupported
from .plan import Choice, realise
from .variant import Dtype, Line, Quant, Variant, fitting
from .workspace import Workspace

__all__ = ["local_norm", "run_fused", "run_plain"]


def _aligned(row_bytes: int, *tensors: Any) -> bool:
    return row_bytes % 16 == 0 and all(tensor.data_ptr() % 16 == 0 for tensor in tensors if tensor is not None)


def _choose(workspace: Workspace, dtype: Dtype, pattern: str, size: int) -> Choice:
    choice = workspace.choose(dtype, pattern, size)
    if choice.transport == "nccl" and workspace.fallback is None:
        # Without another allreduce to hand over to, a slower one beats none as long as the message fits.
        return workspace.seed(size)
    if choice.transport != "nccl" and size > workspace.layout.max_bytes:
        if workspace.fallback is None:
            raise Unsupported(
                f"A message of {size} bytes is larger than this workspace ({workspace.layout.max_bytes} bytes), and it "
                "has no fallback group. Pass fallback=<an NCCL group> to Workspace.create, or a larger max_bytes."
            )
        return Choice(transport="nccl")
    return choice


def run_plain(workspace: Workspace, input: Any, out: Any, dtype: Dtype) -> None:
    """Plain allreduce of a contiguous tensor."""
    size = input.numel() * dtype.size
    choice = _choose(workspace, dtype, "plain", size)
    if choice.transport == "nccl":
        out.copy_(input)
        workspace.reduce_by_fallback(out)
        return
    aligned = _aligned(0, input, out)
    variant = realise(
        choice, workspace.world, dtype, input.numel(), aligned=aligned, push=workspace.slots.transport == "push"
    )
    workspace.launch(variant, input.numel(), {"input": input.data_ptr(), "out": out.data_ptr()})


def run_fused(
    workspace: Workspace,
    input: Any,
    residual: Any,
    weight: Any,
    epsilon: float,
    dtype: Dtype,
    rows: int,
    hidden: int,
    *,
    gemma: bool,
    quant: Quant,
    out: Any,
    residual_out: Any,
    scale: Any,
    scale_out: Any,
    swizzled: bool,
) -> None:
    """Fused allreduce, residual add, norm and quantisation of contiguous tensors."""
    size = rows * hidden * dtype.size
    choice = _choose(workspace, dtype, "fused", size)
    aligned = _aligned(hidden * dtype.size, input, residual, weight, residual_out, out)
    addresses = {"input": input, "residual": residual, "weight": weight, "residual_out": residual_out}
    addresses |= {"scale": scale, "scale_out": scale_out, "out" if quant is Quant.NONE else "quant_out": out}
    given = {name: tensor.data_ptr() for name, tensor in addresses.items() if tensor is not None}
    options: dict[str, Any] = {
        "gemma": gemma,
        "quant": quant,
        "norm_out": quant is Quant.NONE,
        "aligned": aligned,
        "swizzled": swizzled,
    }
    if choice.transport == "nccl":
        reduced = input.clone()
        workspace.reduce_by_fallback(reduced)
        local_norm(workspace, dtype, rows, hidden, {**given, "input": reduced.data_ptr()}, epsilon, options)
        return
    push = workspace.slots.transport == "push"
    variant = realise(choice, workspace.world, dtype, rows, hidden=hidden, push=push, **options)
    workspace.launch(variant, rows, given, epsilon=epsilon)


def local_norm(
    workspace: Workspace,
    dtype: Dtype,
    rows: int,
    hidden: int,
    addresses: dict[str, int],
    epsilon: float,
    options: dict[str, Any] | None = None,
) -> None:
    """Residual add, norm and quantisation of a tensor that is reduced already: the same kernel in a world of one."""
    variant = fitting(Variant(world=1, dtype=dtype, line=Line.F16, hidden=hidden, **(options or {})))
    workspace.launch(variant, rows, addresses, epsilon=epsilon)
