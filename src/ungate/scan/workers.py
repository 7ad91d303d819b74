"""A few processes that each keep a share of the files from beginning to end."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Literal

from ungate.errors import Refusal

__all__ = ["Crew", "crew"]

_DEADLINE_S = 900.0


_ALIVE: list[Any] = []
"""The share of this process: it goes with the process, which is far quicker than taking it apart node by node."""


def _serve(make: Callable[[Any], Any], share: Any, pipe: Connection) -> None:
    # ctrl-C reaches the whole terminal; the caller ends the scan and this process with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # a share grows to millions of syntax nodes that live to its end: going through them for cycles is most of the work
    gc.disable()
    shard = make(share)
    _ALIVE.append(shard)
    while True:
        try:
            call = pipe.recv()
        except EOFError:
            return
        if call is None:
            return
        name, arguments = call
        try:
            answer: tuple[bool, Any] = (True, getattr(shard, name)(*arguments))
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}")
        pipe.send(answer)


class Crew:
    """Calls the same method on every share, side by side."""

    def __init__(self, shards: Sequence[Any], pipes: Sequence[Connection]) -> None:
        self._shards = shards
        self._pipes = pipes

    def call(self, name: str, *arguments: Any) -> list[Any]:
        """The answers of all shares, in order; raises Refusal when one fails or does not answer."""
        if not self._pipes:
            return [getattr(shard, name)(*arguments) for shard in self._shards]
        for pipe in self._pipes:
            pipe.send((name, arguments))
        answers = []
        for pipe in self._pipes:
            try:
                if not pipe.poll(_DEADLINE_S):
                    raise Refusal(f"A scanning process did not finish '{name}' within {_DEADLINE_S:.0f} s.", _RETRY)
                done, answer = pipe.recv()
            except EOFError:
                raise Refusal(
                    f"A scanning process ended during '{name}', perhaps for want of memory.", _RETRY
                ) from None
            if not done:
                raise Refusal(f"A scanning process failed in '{name}': {answer}.", _RETRY)
            answers.append(answer)
        return answers


_RETRY = "Scan fewer packages at a time: ungate scan DIST"


@contextmanager
def crew(make: Callable[[Any], Any], shares: Sequence[Any]) -> Iterator[Crew]:
    """One process a share (the caller's own for a single share), ended when the block is left."""
    if len(shares) == 1:
        collecting = gc.isenabled()
        gc.disable()
        try:
            yield Crew([make(shares[0])], ())
        finally:
            if collecting:
                gc.enable()
        return
    # forking is quickest and keeps what is imported; with threads about (a progress line) it is not safe
    method: Literal["fork", "forkserver"] = "fork" if threading.active_count() == 1 else "forkserver"
    context: Any = multiprocessing.get_context(method)
    processes: list[Any] = []
    pipes: list[Connection] = []
    try:
        for share in shares:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(make, share, theirs), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            pipes.append(ours)
        yield Crew((), pipes)
        for pipe in pipes:
            pipe.send(None)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join(5.0)
