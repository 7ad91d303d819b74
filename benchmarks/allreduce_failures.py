"""A rank that is killed, hangs or makes another call: what the other ranks see, and when.

A job of ``benchmarks/allreduce_pair.py``, which starts one process a GPU with a deadline.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

KEEP: list[Any] = []
"""Tensors that a graph reads."""


def _prepare_failure() -> tuple[Any, Any, Any, Any]:
    import torch

    from ungate_allreduce import Workspace, fused_allreduce_residual_rmsnorm
    from ungate_allreduce.measure import capture

    workspace = Workspace.create(deadline_s=1.0)
    x, residual = (torch.ones(4, 4096, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    weight = torch.ones(4096, dtype=torch.bfloat16, device="cuda")
    out, new = torch.empty_like(x), torch.empty_like(x)
    stream = torch.cuda.Stream()

    def call() -> None:
        fused_allreduce_residual_rmsnorm(x, residual, weight, 1e-6, workspace, out=out, residual_out=new)

    with torch.cuda.stream(stream):
        call()
        torch.cuda.synchronize()
        graph = capture(call, 64, stream)
        graph.replay()
        torch.cuda.synchronize()
    workspace.check()
    KEEP.extend((x, residual, weight))
    return workspace, graph, out, new


def _wait_for_error(workspace: Any, graph: Any, out: Any) -> dict[str, Any]:
    import torch

    from ungate_allreduce.errors import AllreduceError

    begin = time.monotonic()
    graph.replay()
    torch.cuda.synchronize()
    try:
        workspace.check()
    except AllreduceError as error:
        seconds = time.monotonic() - begin
        return {
            "seconds": round(seconds, 3),
            "error": type(error).__name__,
            "says": str(error),
            "nan": bool(out.isnan().all()),
        }
    return {"seconds": round(time.monotonic() - begin, 3), "error": None}


def job_kill(rank: int, world: int, options: dict[str, Any]) -> dict[str, Any]:
    """The last rank is killed between two replays."""
    workspace, graph, out, _ = _prepare_failure()
    workspace.meeting.meet(0, 30.0, "the test")
    if rank == world - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return _wait_for_error(workspace, graph, out)


def job_hang(rank: int, world: int, options: dict[str, Any]) -> dict[str, Any]:
    """The last rank sleeps for four seconds; afterwards all rebuild and the same graph works again."""
    import torch

    workspace, graph, out, new = _prepare_failure()
    workspace.meeting.meet(0, 30.0, "the test")
    if rank == world - 1:
        time.sleep(4.0)
    result = _wait_for_error(workspace, graph, out)
    workspace.rebuild()
    graph.replay()
    torch.cuda.synchronize()
    workspace.check()
    result["right_after_rebuild"] = bool((new == 1.0 + world).all())
    return result


def job_diverge(rank: int, world: int, options: dict[str, Any]) -> dict[str, Any]:
    """Ranks call with another number of rows, then with another dtype: errors, and no output that looks right."""
    import torch

    from ungate_allreduce import all_reduce
    from ungate_allreduce.errors import AllreduceError

    workspace, _, _, _ = _prepare_failure()
    out: dict[str, Any] = {}
    for name, count, dtype in (
        ("rows", 8192 + 4096 * rank, torch.bfloat16),
        ("dtype", 8192, (torch.bfloat16, torch.float16)[rank % 2]),
    ):
        begin = time.monotonic()
        try:
            got = all_reduce(torch.ones(count, dtype=dtype, device="cuda"), workspace)
            torch.cuda.synchronize()
            workspace.check()
            out[name] = {"error": None}
        except AllreduceError as error:
            nan = bool(got.isnan().all()) if name == "rows" else None
            out[name] = {
                "error": type(error).__name__,
                "says": str(error),
                "seconds": round(time.monotonic() - begin, 3),
                "nan": nan,
            }
        workspace.rebuild()
    return out
