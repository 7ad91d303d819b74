"""FlashInfer's peer-to-peer kernels beside ours, in the same harness: its fused one-shot and two-shot and vLLM's.

A job of ``benchmarks/allreduce_pair.py``. Needs flashinfer-python and its compiler (nvcc) and GPUs with peer access;
says so where one is missing. Every arm is checked against float64 before it is timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

EPSILON = 1e-6
ROWS = (1, 2, 4, 8, 16, 32)
HIDDEN = 4096
CTAS = 36
"""Blocks that vLLM's kernel is given; the value that vLLM passes."""


class Message:
    """Input, residual and weight of one size on this rank, and what every rank should get, in float64."""

    def __init__(self, rank: int, world: int, rows: int) -> None:
        import torch

        shape = (rows, HIDDEN)
        inputs = []
        for source in range(world):
            generator = torch.Generator().manual_seed(100 * rows + source)
            inputs.append(torch.randn(shape, generator=generator).bfloat16())
        generator = torch.Generator().manual_seed(rows)
        residual = torch.randn(shape, generator=generator).bfloat16()
        weight = torch.randn(HIDDEN, generator=generator).bfloat16()
        self.total = sum(one.double() for one in inputs)
        wide = self.total + residual.double()
        self.norm = wide * (wide.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * weight.double()
        self.input, self.residual, self.weight = inputs[rank].cuda(), residual.cuda(), weight.cuda()
        self.out, self.new, self.sum = (torch.empty(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))

    def poison(self) -> None:
        """NaN in every output."""
        for tensor in (self.out, self.new, self.sum):
            tensor.fill_(float("nan"))

    def error(self, *, fused: bool) -> float:
        """Largest difference from float64, relative to 1 + the magnitude; NaN where an output was not written."""
        got, want = (self.out, self.norm) if fused else (self.sum, self.total)
        return float(((got.double().cpu() - want).abs() / (1 + want.abs())).max())


def fused_arms(rank: int, world: int, group: Any) -> dict[str, Callable[[Message], None]]:
    """TRT-LLM's fused kernels as FlashInfer ships them, in the ways that its callers launch them."""
    from flashinfer import comm

    pointers, workspace = comm.trtllm_create_ipc_workspace_for_all_reduce_fusion(
        rank, world, max(ROWS), HIDDEN, group=group
    )
    pattern = comm.AllReduceFusionPattern.kARResidualRMSNorm

    def arm(one_shot: bool, pdl: bool) -> Callable[[Message], None]:
        def call(message: Message) -> None:
            comm.trtllm_allreduce_fusion(
                allreduce_in=message.input, world_size=world, world_rank=rank, token_num=message.input.shape[0],
                hidden_dim=HIDDEN, workspace_ptrs=workspace, launch_with_pdl=pdl, trigger_completion_at_end=False,
                fp32_acc=True, pattern_code=pattern, use_oneshot=one_shot, allreduce_out=None,
                residual_in=message.residual, residual_out=message.new, norm_out=message.out, quant_out=None,
                scale_out=None, rms_gamma=message.weight, rms_eps=EPSILON, scale_factor=None, layout_code=None,
            )  # fmt: skip

        return call

    KEEP.append((pointers, workspace))
    return {"one-shot": arm(True, True), "one-shot without PDL": arm(True, False), "two-shot": arm(False, True)}


KEEP: list[Any] = []


def vllm_arm(rank: int, world: int, group: Any) -> tuple[Callable[[Message], None], Callable[[], None]]:
    """vLLM's custom allreduce as FlashInfer ships it, out of place; and what has to run after a capture.

    In a graph it reads its input where that lies, once the addresses of all ranks are registered.
    """
    import torch
    import torch.distributed as dist
    from flashinfer import comm
    from flashinfer.comm.cuda_ipc import create_shared_buffer

    size = max(ROWS) * HIDDEN * 2
    metadata = create_shared_buffer(comm.vllm_meta_size() + size, group)
    buffers = create_shared_buffer(size, group)
    table = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
    handle = comm.vllm_init_custom_ar(metadata, table, rank, True)
    comm.vllm_register_buffer(handle, buffers)
    KEEP.append((metadata, buffers, table))

    def call(message: Message) -> None:
        comm.vllm_all_reduce(handle, message.input, message.sum, buffers[rank], size, CTAS)

    def captured() -> None:
        handles, offsets = comm.vllm_get_graph_buffer_ipc_meta(handle)
        everyone: list[Any] = [None] * world
        dist.all_gather_object(everyone, (list(handles), list(offsets)), group=group)
        comm.vllm_register_graph_buffers(handle, [one[0] for one in everyone], [one[1] for one in everyone])

    return call, captured


def rank(rank: int, world: int, options: dict[str, Any]) -> dict[str, Any]:
    """Microseconds of each arm by rows, as graph nodes; an arm that computes something else is not timed."""
    try:
        import flashinfer
    except ImportError as error:
        return {"failed": f"FlashInfer is not here: {error}"}
    import torch
    import torch.distributed as dist

    from ungate_allreduce import Workspace
    from ungate_allreduce.dispatch import local_norm
    from ungate_allreduce.tuner import aligned_us
    from ungate_allreduce.variant import Dtype

    workspace = Workspace.create(deadline_s=60.0)
    group = dist.group.WORLD
    arms: dict[str, tuple[Callable[[Message], None], bool, Callable[[], None]]] = {
        name: (call, True, lambda: None) for name, call in fused_arms(rank, world, group).items()
    }
    vllm, captured = vllm_arm(rank, world, group)

    def vllm_and_norm(message: Message) -> None:
        vllm(message)
        given = {"input": message.sum, "residual": message.residual, "weight": message.weight, "out": message.out}
        addresses = {name: tensor.data_ptr() for name, tensor in given.items()}
        addresses["residual_out"] = message.new.data_ptr()
        local_norm(workspace, Dtype.BFLOAT16, message.input.shape[0], HIDDEN, addresses, EPSILON)

    arms |= {"vLLM": (vllm, False, captured), "vLLM and norm": (vllm_and_norm, True, captured)}
    out: dict[str, Any] = {"flashinfer": flashinfer.__version__, "hidden": HIDDEN, "us": {}, "error": {}}
    for name, (call, fused, after) in arms.items():
        us: dict[str, float | None] = {}
        errors: dict[str, float] = {}
        for rows in ROWS:
            if name == "two-shot" and rows <= world:
                continue  # FlashInfer refuses two shots of fewer rows than ranks
            message = Message(rank, world, rows)
            for _ in range(3):
                message.poison()
                call(message)
                torch.cuda.synchronize()
            errors[str(rows)] = max(workspace.group.gather(message.error(fused=fused)))
            # Two bfloat16 roundings of a value of 1 are 0.8 %.
            good = errors[str(rows)] < 0.02
            times = aligned_us(workspace, lambda: call(message), captured=after) if good else []  # noqa: B023
            us[str(rows)] = round(statistics.median(times), 3) if times else None
        out["us"][name], out["error"][name] = us, errors
    return out
