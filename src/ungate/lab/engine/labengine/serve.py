"""The HTTP face: completions, health, counters."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from aiohttp import web

from labengine import __version__
from labengine.platform import get_device_capability
from labengine.protocol import Answer, BadRequest, Completion, error_body
from labengine.ranks import Ranks
from labengine.scheduler import Generated, Request, Scheduler
from labengine.server_args import ServerArgs

__all__ = ["Frontend"]

STALL_S = float(os.environ.get("LAB_STALL_S", "8"))
"""A step that takes longer than this makes /health say 503."""


class Frontend:
    """Routes and their handlers."""

    def __init__(self, args: ServerArgs, scheduler: Scheduler, ranks: Ranks) -> None:
        self.args = args
        self.scheduler = scheduler
        self.ranks = ranks
        self.started = time.time()

    def application(self) -> web.Application:
        """The application with every route."""
        app = web.Application(client_max_size=1 << 22)
        app.add_routes(
            [
                web.post("/v1/completions", self.completions),
                web.get("/v1/models", self.models),
                web.get("/health", self.health),
                web.get("/metrics", self.metrics),
                web.get("/server_info", self.server_info),
            ]
        )
        return app

    async def health(self, _: web.Request) -> web.Response:
        """200, or 503 with the reason when a rank died or owes an answer for too long."""
        stalled = self.scheduler.stalled_s
        if self.scheduler.failure:
            return web.json_response({"status": str(self.scheduler.failure)}, status=503)
        if stalled > STALL_S:
            behind = ", ".join(map(str, self.scheduler.board.missing()))
            return web.json_response({"status": f"no answer from rank {behind} for {stalled:.1f} s"}, status=503)
        return web.json_response({"status": "ok"})

    async def models(self, _: web.Request) -> web.Response:
        """The one model."""
        config = self.args.config
        entry = {"id": self.args.model, "object": "model", "created": int(self.started), "owned_by": "labengine"}
        return web.json_response({"object": "list", "data": [{**entry, "max_model_len": config.max_model_len}]})

    def counters(self) -> dict[str, int]:
        """Counts since the start. Calls are those of rank 0; all ranks make the same."""
        scheduler, board = self.scheduler, self.scheduler.board.counters()
        return {
            "prompt_tokens_total": scheduler.prompt_tokens,
            "generation_tokens_total": scheduler.generated_tokens,
            "requests_finished_total": scheduler.finished_requests,
            "requests_failed_total": scheduler.failed_requests,
            "requests_running": len([request for request in scheduler.running if not request.finished]),
            "requests_waiting": len(scheduler.waiting),
            "prefix_cache_hit_tokens_total": 0,
            "steps_total": board["steps"][0],
            "all_reduce_calls_total": board["all_reduce_calls"][0],
            "fused_calls_total": board["fused_calls"][0],
            "fused_polls_total": sum(board["fused_polls"]),
        }

    async def metrics(self, _: web.Request) -> web.Response:
        """The counters in Prometheus's text form, each with the prefix ``lab:``."""
        lines = []
        for name, value in self.counters().items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# TYPE lab:{name} {kind}", f"lab:{name} {value}"]
        return web.Response(text="\n".join(lines) + "\n")

    async def server_info(self, _: web.Request) -> web.Response:
        """Arguments, counters and the rank processes, as JSON."""
        return web.json_response(
            {
                "version": __version__,
                "args": asdict(self.args),
                "architecture": self.args.config.architecture,
                "device_capability": get_device_capability(),
                "pids": self.ranks.pids,
                "uptime_s": round(time.time() - self.started, 3),
                "counters": self.counters(),
                "ranks": self.scheduler.board.counters(),
            }
        )

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """Greedy completion of one prompt."""
        try:
            body: object = await request.json()
            completion = Completion.read(body, self.args.config, self.args.model)
        except (ValueError, BadRequest) as error:
            return web.json_response(error_body(str(error), 400), status=400)
        answer = Answer.to(completion, self.args.model)
        try:
            async with self._submitted(completion) as tokens:
                if completion.stream:
                    return await self._stream(request, answer, tokens)
                generated = [token async for token in tokens]
        except Exception as error:
            return web.json_response(error_body(str(error), 500), status=500)
        return web.json_response({**answer.body(generated), "usage": answer.usage(len(generated))})

    @asynccontextmanager
    async def _submitted(self, completion: Completion) -> AsyncIterator[AsyncIterator[Generated]]:
        wanted = Request(
            completion.prompt, completion.max_tokens, completion.ignore_eos, completion.logprobs is not None
        )
        self.scheduler.submit(wanted)
        try:
            yield _tokens(wanted)
        finally:
            self.scheduler.abort(wanted)

    async def _stream(
        self, request: web.Request, answer: Answer, tokens: AsyncIterator[Generated]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        count = 0
        try:
            async for token in tokens:
                count += 1
                await response.write(_event(answer.body([token])))
            if answer.completion.include_usage:
                await response.write(_event(answer.usage_event(count)))
        except ConnectionError:
            return response
        except Exception as error:
            # The status line is long gone: a failure in mid-stream can only be an event.
            await response.write(_event(error_body(str(error), 500)))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


async def _tokens(request: Request) -> AsyncIterator[Generated]:
    while True:
        item = await request.queue.get()
        if isinstance(item, Exception):
            raise item
        yield item
        if item.finish_reason:
            return


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
