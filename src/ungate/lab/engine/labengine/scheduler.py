"""Continuous batching: waiting prompts first, in steps of at most MAX_ROWS tokens, then one token for all."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from labengine.board import MAX_ROWS, Board
from labengine.models import Array
from labengine.tokens import EOS
from labengine.transformer import Entry

__all__ = ["Generated", "Request", "Scheduler"]

logger = logging.getLogger(__name__)

IDLE_S = 1.0
"""An idle server asks its ranks for an answer this often, so that a hang shows without work."""


@dataclass(frozen=True)
class Generated:
    """One token; ``logits`` are kept where the request asked for log probabilities."""

    token: int
    finish_reason: str | None
    logits: Array | None


@dataclass(eq=False)
class Request:
    """One sequence. What is generated goes into ``queue``, an exception ends it."""

    prompt: list[int]
    max_tokens: int
    ignore_eos: bool = False
    wants_logits: bool = False
    queue: asyncio.Queue[Generated | Exception] = field(default_factory=asyncio.Queue)
    generated: list[int] = field(default_factory=list)
    slot: int = -1
    prefilled: int = 0
    finished: bool = False


class Scheduler:
    """Owns the board: plans a step, waits for all ranks, hands out the tokens."""

    def __init__(self, board: Board, slots: int) -> None:
        self.board = board
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.prompt_tokens = self.generated_tokens = self.finished_requests = self.failed_requests = 0
        self.failure: Exception | None = None
        self._free = list(range(slots))
        self._wake = asyncio.Event()
        self._answers = 0
        self._answered: asyncio.Future[None] | None = None
        self._pending_since: float | None = None

    def submit(self, request: Request) -> None:
        """Queue a request; raises what made the scheduler fail."""
        if self.failure:
            raise self.failure
        self.waiting.append(request)
        self._wake.set()

    def abort(self, request: Request) -> None:
        """Forget a request whose client has gone; harmless for one that has finished."""
        request.finished = True
        if request in self.waiting:
            self.waiting.remove(request)

    def fail(self, error: Exception) -> None:
        """End every request with ``error`` and take no more."""
        self.failure = self.failure or error
        for request in (*self.waiting, *self.running):
            if not request.finished:
                request.finished = True
                self.failed_requests += 1
                request.queue.put_nowait(self.failure)
        self.waiting.clear()
        self.running.clear()

    @property
    def stalled_s(self) -> float:
        """For how long the ranks owe an answer."""
        return 0.0 if self._pending_since is None else time.monotonic() - self._pending_since

    async def run(self) -> None:
        """Plan and wait for ever."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.board.done, self._collect)
        try:
            planned: list[Request] = []
            while True:
                entries, tokens = self._plan(planned)
                if not entries and not await self._idle():
                    continue
                self._pending_since = time.monotonic()
                self._answered = loop.create_future()
                self._answers = 0
                self.board.post(entries, tokens)
                await self._answered
                self._pending_since = None
                self._hand_out(planned)
        finally:
            loop.remove_reader(self.board.done)

    async def _idle(self) -> bool:
        # True when nothing came and the ranks should be asked.
        self._wake.clear()
        try:
            await asyncio.wait_for(self._wake.wait(), IDLE_S)
        except TimeoutError:
            return True
        return False

    def _collect(self) -> None:
        self._answers += self.board.collect()
        if self._answers >= self.board.world_size and self._answered and not self._answered.done():
            self._answered.set_result(None)

    def _plan(self, planned: list[Request]) -> tuple[list[Entry], list[int]]:
        # Fills ``planned`` with the requests that get a token from this step.
        planned.clear()
        for request in [request for request in self.running if request.finished]:
            self.running.remove(request)
            self._free.append(request.slot)
        self._free.sort()
        while self.waiting and self._free:
            request = self.waiting.popleft()
            request.slot = self._free.pop(0)
            self.running.append(request)
        entries: list[Entry] = []
        tokens: list[int] = []
        for request in self.running:
            room = MAX_ROWS - len(tokens)
            part = request.prompt[request.prefilled : request.prefilled + room]
            if part:
                entries.append(Entry(request.slot, request.prefilled, len(part)))
                tokens += part
                request.prefilled += len(part)
                planned.append(request)
        if not entries:
            planned += sorted(self.running, key=lambda request: request.slot)
            for request in planned:
                entries.append(Entry(request.slot, len(request.prompt) + len(request.generated) - 1, 1))
                tokens.append(request.generated[-1])
        return entries, tokens

    def _hand_out(self, planned: list[Request]) -> None:
        if not planned:
            return
        logits = self.board.logits[: len(planned)]
        best = logits.argmax(axis=1).tolist()
        for row, request in enumerate(planned):
            if request.finished or request.prefilled < len(request.prompt):
                continue
            token = int(best[row])
            if not request.generated:
                self.prompt_tokens += len(request.prompt)
            request.generated.append(token)
            self.generated_tokens += 1
            reason = None
            if len(request.generated) >= request.max_tokens:
                reason = "length"
            elif token == EOS and not request.ignore_eos:
                reason = "stop"
            if reason:
                request.finished = True
                self.finished_requests += 1
            request.queue.put_nowait(Generated(token, reason, np.array(logits[row]) if request.wants_logits else None))
