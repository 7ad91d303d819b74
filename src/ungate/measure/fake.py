"""A server with known timings and known faults, to find out what the load client notices.

Run as its own process: ``python -m ungate.measure.fake --port 8123``. The path names the fault and
its period: ``/error-event/3/v1/completions`` misbehaves on every third request, ``/none/1/v1/completions`` never.
``/truth`` says when first tokens were really written, so that the client is compared with what the
server did and not with what it meant to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter

from aiohttp import web

__all__ = ["CACHE_HITS", "FAULTS", "RIGHT", "application", "main"]

FAULTS: dict[str, str] = {
    "none": "answers as asked",
    "http-500": "HTTP 500",
    "early-end": "stream ends early with [DONE] and no usage",
    "error-event": "error event, then [DONE], as a crashed engine does",
    "cut": "connection cut in the middle of a chunk",
    "wrong-usage": "usage counts fewer tokens than were asked for",
    "wrong-prompt": "usage counts two prompt tokens too many",
    "finish-stop": "finish reason stop: the output length was ignored",
    "hang": "stream stands still after half of the tokens",
    "silent": "request accepted, nothing ever sent",
    "glued": "chunks arrive glued together",
    "cached": "prompts are found in a prefix cache",
    "no-done": "complete stream without [DONE]",
    "garbage": "an event that is no JSON",
    "empty": "HTTP 200 and [DONE], no token",
    "headers-only": "HTTP 200 and a normal end, nothing in it",
    "busy": "HTTP 503, come back later",
    "pings": "comments keep the connection alive, no token comes",
    "comments": "comments, event lines and CRLF around a right answer",
    "two-a-chunk": "two tokens in a chunk, as speculative decoding sends them",
}
"""What each fault does, in words."""

RIGHT = frozenset({"none", "comments"})
"""Those that are none: odd, but what the protocol allows."""

CACHE_HITS = "fake:prefix_cache_hits_total"
"""The counter of prompt tokens from the prefix cache."""


class _Fake:
    def __init__(self, ttft_s: float, gap_s: float) -> None:
        self._ttft, self._gap = ttft_s, gap_s
        self._seen: Counter[str] = Counter()
        self._firsts: list[float] = []
        self._lasts: list[float] = []
        self._hits = 0

    async def truth(self, request: web.Request) -> web.Response:
        """Mean seconds from arrival to first token and to the end, of all answers since the last one."""
        firsts, lasts, self._firsts, self._lasts = self._firsts, self._lasts, [], []
        mean = {"count": len(firsts)} | (
            {"ttft_s": sum(firsts) / len(firsts), "e2e_s": sum(lasts) / len(lasts)} if firsts else {}
        )
        return web.json_response(mean)

    async def metrics(self, request: web.Request) -> web.Response:
        """Prompt tokens found in the cache that this server does not have."""
        return web.Response(text=f"# TYPE {CACHE_HITS} counter\n{CACHE_HITS} {self._hits}\n")

    async def models(self, request: web.Request) -> web.Response:
        """Load generators ask for this before they begin, and take it for readiness."""
        return web.json_response({"object": "list", "data": [{"id": "fake", "object": "model"}]})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        arrived = time.perf_counter()
        fault, every = request.match_info["fault"], int(request.match_info["every"])
        body = await request.json()
        self._seen[fault] += 1
        self._hits += len(body["prompt"]) if fault == "cached" and not self._seen[fault] % every else 0
        if fault not in FAULTS:
            return web.json_response({"error": {"message": f"no fault named {fault}"}}, status=404)
        if self._seen[fault] % every:
            fault = "none"
        if fault == "http-500":
            return web.json_response({"error": {"message": "the engine is gone"}}, status=500)
        if fault == "busy":
            return web.json_response({"error": {"message": "busy"}}, status=503, headers={"Retry-After": "1"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if fault == "silent":
            await asyncio.sleep(3600)
        while fault == "pings":
            await response.write(b": ping\n\n")
            await asyncio.sleep(0.2)
        if fault in {"empty", "headers-only"}:
            await response.write(_DONE if fault == "empty" else b"")
            return response
        await self._tokens(request, response, body, fault, arrived)
        return response

    async def _tokens(
        self, request: web.Request, response: web.StreamResponse, body: dict[str, object], fault: str, arrived: float
    ) -> None:
        asked, prompt = body["max_tokens"], body["prompt"]
        assert isinstance(asked, int) and isinstance(prompt, (list, str))  # a text counts a token a character
        half, held = asked // 2, b""
        due = arrived + self._ttft
        if fault == "comments":
            await response.write(b": ping\r\n\r\nretry: 3000\r\n\r\n")
        for index in range(asked):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            # Late by more than half a gap, it goes on from now: an engine does not hurry to make up for lost time.
            due = max(due, time.perf_counter() - self._gap / 2) + self._gap
            if index == half and fault in {"early-end", "error-event", "cut", "hang", "garbage"}:
                await self._break(request, response, fault)
                return
            last = index == asked - 1
            reason = ("stop" if fault == "finish-stop" else "length") if last else None
            chunk = _event({"choices": [{"index": 0, "text": "x", "finish_reason": reason}]})
            if fault == "comments":
                chunk = b"event: message\r\n" + chunk.replace(b"\n\n", b"\r\n\r\n") + b": ping\r\n\r\n"
            if fault == "two-a-chunk" and index % 2 and not last:
                continue
            if fault == "glued" and index and not last:
                held += chunk
                continue
            await response.write(held + chunk)
            if index == 0:
                self._firsts.append(time.perf_counter() - arrived)
        usage = {
            "prompt_tokens": len(prompt) + (2 if fault == "wrong-prompt" else 0),
            "completion_tokens": half if fault == "wrong-usage" else asked,
        }
        options = body.get("stream_options")
        told = isinstance(options, dict) and options.get("include_usage")
        await response.write(_event({"choices": [], "usage": usage}) if told else b"")
        await response.write(b"" if fault == "no-done" else _DONE)
        self._lasts.append(time.perf_counter() - arrived)

    async def _break(self, request: web.Request, response: web.StreamResponse, fault: str) -> None:
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "cut":
            assert request.transport is not None
            # A chunk header that promises more than follows, and then the connection goes.
            request.transport.write(b"40\r\ndata: {")
            request.transport.abort()
            return
        if fault == "error-event":
            await response.write(_event({"error": {"message": "EngineCore died", "code": 500}}))
        if fault == "garbage":
            await response.write(b"data: {half an event\n\n")
        await response.write(_DONE)


_DONE = b"data: [DONE]\n\n"


def _event(payload: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def application(ttft_s: float, gap_s: float) -> web.Application:
    """``ttft_s`` from a request's arrival to its first token, ``gap_s`` between tokens."""
    fake = _Fake(ttft_s, gap_s)
    app = web.Application()
    app.router.add_post("/{fault}/{every}/v1/completions", fake.completions)
    app.router.add_get("/truth", fake.truth)
    app.router.add_get("/{fault}/{every}/v1/models", fake.models)
    app.router.add_get("/{fault}/{every}/metrics", fake.metrics)
    return app


async def _serve(app: web.Application, port: int) -> None:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    print(f"listening {runner.addresses[0][1]}", flush=True)
    await asyncio.sleep(float("inf"))


def main(arguments: list[str] | None = None) -> int:
    """Serve on the loopback address until ended; prints ``listening PORT`` when it accepts."""
    parser = argparse.ArgumentParser(prog="python -m ungate.measure.fake")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ttft", type=float, default=0.05, help="seconds")
    parser.add_argument("--gap", type=float, default=0.025, help="seconds")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(_serve(application(options.ttft, options.gap), options.port))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
