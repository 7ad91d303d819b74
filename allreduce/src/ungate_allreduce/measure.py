"""Time of one call as a node of a CUDA graph, and what the parts of a transfer cost on the same machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .driver import driver
from .memory import Segment
from .primitives import launch
from .variant import Line

__all__ = ["Primitives", "capture", "graph_us", "measure_primitives"]

NODES = 100
SAMPLES = 7


def capture(enqueue: Callable[[], None], nodes: int, stream: Any) -> Any:
    """A CUDA graph of ``nodes`` calls of ``enqueue``."""
    import torch

    graph = torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    # NCCL's watchdog thread may query events meanwhile, which the global mode would forbid.
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        for _ in range(nodes):
            enqueue()
    return graph


def graph_us(enqueue: Callable[[], None], *, nodes: int = NODES, samples: int = SAMPLES) -> list[float]:
    """Microseconds a call, one figure a sample: a graph of ``nodes`` calls, timed with events around its replay.

    A delay kernel in front hides the launch of the graph from the clock.
    """
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        enqueue()
        torch.cuda.synchronize()
        graph = capture(enqueue, nodes, stream)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        times: list[float] = []
        for sample in range(samples + 2):
            launch("spin", limit_ns=100_000)
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            if sample >= 2:
                times.append(1e3 * begin.elapsed_time(end) / nodes)
    return times


@dataclass(frozen=True)
class Primitives:
    """Microseconds and GB/s, measured in one run on one GPU.

    ``node_us`` an empty graph node; ``device_load_us`` and ``host_load_us`` a load whose address depends on the one
    before; ``round_trip_us`` two blocks answering each other through host memory; ``store_fence_us`` a store to host
    memory and a system fence; rates are slopes between 64 KiB and 1 MiB.
    """

    node_us: float
    device_load_us: float
    host_load_us: float
    round_trip_us: float
    store_fence_us: float
    read_gbs: float
    write_gbs: float
    read_us: Mapping[str, float]
    write_us: Mapping[str, float]

    @property
    def signal_us(self) -> float:
        """One way through host memory: half a round trip."""
        return self.round_trip_us / 2

    def formula(self, world: int, size: int, line: Line, shots: int) -> float:
        """``T0 + f S / Bw + f reads S / Br`` with T0 from the measured parts: node, load, write, 1.5 polls."""
        wire = line.expansion * size / 1e3
        reads = (world - 1) if shots == 1 else 2 * (world - 1) / world
        write = max(self.signal_us - self.host_load_us, 0.0)
        start = self.node_us + self.device_load_us + write + 1.5 * self.host_load_us
        hop = self.signal_us if shots == 2 else 0.0
        return start + hop + wire / self.write_gbs + reads * wire / self.read_gbs

    def ready_floor(self, world: int, size: int, line: Line, shots: int) -> float:
        """The least one rank can take when its peers' lines are there: node, load, one poll, the bytes read.

        Stricter than :meth:`formula`: its own write overlaps and the first poll always succeeds.
        """
        wire = line.expansion * size / 1e3
        reads = (world - 1) if shots == 1 else 2 * (world - 1) / world
        return self.node_us + self.device_load_us + shots * self.host_load_us + reads * wire / self.read_gbs

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "signal_us": self.signal_us}


def measure_primitives() -> Primitives:
    """Measure on the current device. Takes about a second after compilation."""
    import torch

    segment = Segment.create(4 << 20)
    segment.forget_name()
    alias = driver().register(segment.address, segment.size)
    device = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
    sink = torch.zeros(4, dtype=torch.int64, device="cuda").data_ptr()

    def median(name: str, nodes: int = 20, **given: int) -> float:
        return statistics.median(graph_us(lambda: launch(name, sink=sink, **given), nodes=nodes))

    def slope(name: str, count: int, **given: int) -> float:
        many = median(name, count=2 * count, nodes=4, **given)
        return (many - median(name, count=count, nodes=4, **given)) / count

    try:
        sizes = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
        reads: dict[str, float] = {}
        writes: dict[str, float] = {}
        for size in sizes:
            grids = (1, 4, 8, 16, 32)
            lines = size // 16
            reads[str(size)] = min(median("stream_read", a=alias, count=lines, grid=g, block=512) for g in grids)
            writes[str(size)] = min(
                median("stream_write", a=alias, count=lines, grid=g, block=512, limit_ns=1) for g in grids
            )
        span = sizes[3] - sizes[1]
        result = Primitives(
            node_us=median("empty", nodes=100),
            device_load_us=slope("chain", 1000, a=device.data_ptr()),
            host_load_us=slope("chain", 200, a=alias),
            round_trip_us=_round_trip(alias, sink),
            store_fence_us=slope("store_fence", 200, a=alias),
            read_gbs=span / (reads[str(sizes[3])] - reads[str(sizes[1])]) / 1e3,
            write_gbs=span / (writes[str(sizes[3])] - writes[str(sizes[1])]) / 1e3,
            read_us=reads,
            write_us=writes,
        )
    finally:
        torch.cuda.synchronize()
        driver().unregister(segment.address)
        segment.close()
    return result


def _round_trip(alias: int, sink: int) -> float:
    """Two blocks of one launch answer each other; flags start at zero again before each launch."""
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times: list[float] = []
    rounds = 200
    for sample in range(9):
        launch("stream_write", a=alias, count=1, grid=1, block=1, limit_ns=1)
        launch("stream_write", a=alias + 4096, count=1, grid=1, block=1, limit_ns=1)
        begin.record()
        launch("ping_pong", a=alias, b=alias + 4096, sink=sink, count=rounds, grid=2, block=1, limit_ns=50_000_000)
        end.record()
        torch.cuda.synchronize()
        if sample >= 2:
            times.append(1e3 * begin.elapsed_time(end) / rounds)
    return statistics.median(times)
