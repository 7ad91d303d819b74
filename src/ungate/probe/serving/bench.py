"""One shape on one rank: buffers for some calls, those calls as one CUDA graph or one loop, times, and outputs.

Every call of a replay has a message of its own, so that what is timed can be compared afterwards, also where the sum
is left in the input.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from ungate.probe.candidates import Operation, Ranks
from ungate.probe.serving.messages import Pools, Wrong, digest

__all__ = ["Bench", "calls_of"]

_HELD_BYTES = 16 << 20  # of all messages of a replay
_MOST, _FEWEST = {"cuda": 50, "cpu": 20}, 4
_ALIGNMENT = 512  # bytes between the starts of two messages are a multiple of it, as of PyTorch's own allocations
_SLEEP_CYCLES = 400_000  # of the GPU, about 0.2 ms: the host has enqueued everything before the first event


def calls_of(size: int, device: str) -> int:
    """Calls of a replay for messages of ``size`` bytes: up to 50 (20 on the CPU), at least 4, at most 16 MiB in all."""
    return max(_FEWEST, min(_MOST[device], _HELD_BYTES // max(size, 1)))


class Bench:
    """``rows`` x ``hidden`` elements a call. On a GPU everything runs on the current stream."""

    def __init__(self, ranks: Ranks, operation: Operation, pools: Pools, rows: int, hidden: int) -> None:
        self._ranks, self._operation, self._pools = ranks, operation, pools
        self._elements = rows * hidden
        size = ranks.dtype.itemsize
        self._gpu = ranks.device.type == "cuda"
        self.calls = calls_of(self._elements * size, ranks.device.type)
        stride = -(-self._elements * size // _ALIGNMENT) * _ALIGNMENT // size
        self._sources = torch.empty((self.calls, stride), dtype=ranks.dtype, device=ranks.device)
        self._outputs = self._sources if operation.in_place else torch.empty_like(self._sources)
        self._pairs = [
            tuple(each[: self._elements].view(rows, hidden) for each in pair)
            for pair in zip(self._sources, self._outputs)  # noqa: B905 - as many by construction
        ]
        spare = torch.zeros((2, rows, hidden), dtype=ranks.dtype, device=ranks.device)
        self._spare = (spare[0], spare[1])
        self._graph: Any = None
        self.note = ""

    def load(self, replay: int) -> None:
        """Put the messages of a replay in place, and NaN where their sums will be."""
        self._sources[:, : self._elements].copy_(
            self._pools.windows(self._pools.own, replay, self.calls, self._elements)
        )
        if self._outputs is not self._sources:
            self._outputs.fill_(float("nan"))

    def _enqueue(self) -> None:
        for source, out in self._pairs:
            self._operation(source, out)

    def capture(self) -> bool:
        """Make the calls one CUDA graph; False on the CPU, and with ``note`` where they cannot be captured.

        The calls must have run once before: kernels are not loaded while a stream is captured.
        """
        if not self._gpu:
            return False
        graph = torch.cuda.CUDAGraph()
        try:
            # NCCL's watchdog thread may query events meanwhile, which the global mode would forbid.
            capture = torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local")
            with self._operation.capturing(), capture:
                self._enqueue()
        except RuntimeError as error:
            last = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            self.note = f"Its calls are timed in a loop, as they cannot be captured in a CUDA graph: {last}"
            return False
        self._graph = graph
        return True

    def _run(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        else:
            self._enqueue()

    def settle(self) -> None:
        """Wait for the device."""
        if self._gpu:
            torch.cuda.synchronize()

    def check(self, replay: int) -> tuple[Wrong | None, float, str]:
        """Run a replay and compare all of it: what is wrong, the largest share of the bound, a hash of the outputs."""
        self.load(replay)
        self._barrier()
        self._run()
        return self.compared(replay)

    def compared(self, replay: int) -> tuple[Wrong | None, float, str]:
        """The same for the replay that ran last."""
        self.settle()
        outputs = self._outputs[:, : self._elements].cpu().contiguous()
        wrong, share = self._pools.compare(outputs, replay)
        return wrong, share, digest(outputs)

    def time(self, replay: int) -> float:
        """Microseconds a call of one replay.

        The ranks leave a barrier one after another. So each first runs calls that are not timed, whose end is about the
        same moment on all of them.
        """
        return self._time_gpu(replay) if self._gpu else self._time_cpu(replay)

    def _time_gpu(self, replay: int) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self._barrier()
        torch.cuda._sleep(_SLEEP_CYCLES)
        self._run()
        self.load(replay)
        begin.record()
        self._run()
        end.record()
        torch.cuda.synchronize()
        return float(1e3 * begin.elapsed_time(end) / self.calls)

    def _time_cpu(self, replay: int) -> float:
        self.load(replay)
        self._spare[0].zero_()
        self._barrier()
        self._operation(*self._spare)
        begin = time.perf_counter()
        self._run()
        return 1e6 * (time.perf_counter() - begin) / self.calls

    def _barrier(self) -> None:
        import torch.distributed as dist

        self.settle()
        dist.barrier(group=self._ranks.group)

    def close(self) -> None:
        """Destroy the graph, before the operation that it holds calls of."""
        self.settle()
        self._graph = None
