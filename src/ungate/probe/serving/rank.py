"""One rank of one candidate: does what it is asked over a socket, a line of JSON each way, until it is told to close.

Whatever a candidate prints goes to the log; only this module writes to the socket.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import socket
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from ungate.probe.candidates import Operation, Ranks, Unavailable, candidates

__all__ = ["main"]

_TOGETHER = 8  # candidates that are open at once, about


class _Rank:
    """The candidate as this rank has it, and the shapes asked for so far."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._benches: dict[tuple[int, int], Any] = {}
        self._operation: Operation | None = None
        self._stream: Any = None

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Join the other ranks and open the candidate."""
        from datetime import timedelta

        import torch
        import torch.distributed as dist

        from ungate.probe.serving.messages import Pools

        spec = self._spec
        rank, world = spec["rank"], spec["world"]
        device = torch.device("cuda", rank) if spec["device"] == "cuda" else torch.device("cpu")
        if spec["device"] == "cuda":
            torch.cuda.set_device(device)
            self._stream = torch.cuda.Stream(device)
        # On a GPU only outputs are compared on the CPU, by every candidate's ranks, and threads that wait take cores.
        share = world * (_TOGETHER if spec["device"] == "cuda" else 1)
        torch.set_num_threads(max(1, spec["cores"] // share))
        patience = timedelta(seconds=spec["timeout_s"])
        store = f"file://{spec['folder']}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world, timeout=patience)
        group = dist.group.WORLD
        dtype = getattr(torch, spec["dtype"])
        ranks = Ranks(rank, world, device, dtype, spec["max_bytes"], spec["folder"], group, spec["timeout_s"])
        self._ranks = ranks
        candidate = next(each for each in candidates(spec["extra"]) if each.name == spec["candidate"])
        with self._current():
            self._operation = candidate.open(ranks)
            self._pools = Pools(rank, world, dtype, device, spec["max_bytes"] // dtype.itemsize)
        return {}

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        if self._stream is None:
            yield
            return
        import torch

        with torch.cuda.stream(self._stream):
            yield

    def shape(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make buffers, run them once and compare, capture, and compare a replay of the graph."""
        from ungate.probe.serving.bench import Bench

        assert self._operation is not None
        rows, hidden = request["rows"], request["hidden"]
        if refusal := self._operation.refuses(rows, hidden):
            return {"refused": refusal}
        with self._current():
            bench = Bench(self._ranks, self._operation, self._pools, rows, hidden)
            self._benches[rows, hidden] = bench
            first = _told(bench.check(request["replay"]))
            graph = bench.capture() if request["timed"] else False
            then = _told(bench.check(request["replay"] + 1))
        return {"checks": [first, then], "graph": graph, "note": bench.note, "calls": bench.calls}

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time some replays, each with new messages, and compare the last."""
        bench = self._benches[request["rows"], request["hidden"]]
        numbers = range(request["replay"], request["replay"] + request["replays"])
        with self._current():
            us = [bench.time(number) for number in numbers]
            return {"us": us, "checks": [_told(bench.compared(numbers[-1]))]}

    def drop(self, request: dict[str, Any]) -> dict[str, Any]:
        """Forget the buffers of a shape."""
        with self._current():
            self._benches.pop((request["rows"], request["hidden"])).close()
        return {}

    def close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Leave the other ranks as engines do: graphs first, then the operation, then the group."""
        import torch.distributed as dist

        with self._current():
            for bench in self._benches.values():
                bench.close()
            self._benches.clear()
            if self._operation is not None:
                self._operation.close()
        dist.destroy_process_group()
        return {}


def _told(compared: tuple[Any, float, str]) -> dict[str, Any]:
    wrong, share, hashed = compared
    return {"wrong": wrong.sentence() if wrong else None, "share": None if wrong else share, "digest": hashed}


def _answer(rank: _Rank, request: dict[str, Any]) -> dict[str, Any]:
    does = {"open": rank.open, "shape": rank.shape, "time": rank.time, "drop": rank.drop, "close": rank.close}
    try:
        return does[request["do"]](request)
    except Unavailable as reason:
        return {"unavailable": str(reason)}
    except Exception as error:
        traceback.print_exc()
        sys.stderr.flush()
        first = str(error).strip().splitlines()
        return {"failed": f"{type(error).__name__}: {first[0]}" if first else type(error).__name__}


def main() -> None:
    """Serve until the socket closes."""
    faulthandler.enable()
    spec = json.loads(sys.argv[1])
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(spec["socket"])
        stream = line.makefile("rw", encoding="utf-8")
        stream.write(json.dumps({"rank": spec["rank"]}) + "\n")
        stream.flush()
        with contextlib.suppress(
            ImportError
        ):  # told when the candidate is opened; those of all are imported side by side
            importlib.import_module("torch.distributed")
        rank = _Rank(spec)
        for text in stream:
            request = json.loads(text)
            stream.write(json.dumps(_answer(rank, request)) + "\n")
            stream.flush()
            if request["do"] == "close":
                return


if __name__ == "__main__":
    main()
