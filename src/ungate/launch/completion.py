"""One streamed completion as a sign of life: tokens that come are progress, a status code is not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp

__all__ = ["Completion", "complete", "model_name", "one_token"]

_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class Completion:
    """``seconds`` to the end, ``first_s`` to the first token (None when none came), ``fault`` in words or empty."""

    seconds: float
    first_s: float | None
    tokens: int
    fault: str


async def complete(
    session: aiohttp.ClientSession,
    url: str,
    model: str,
    prompt: Sequence[int],
    tokens: int,
    *,
    on_token: Callable[[], None] = lambda: None,
) -> Completion:
    """Ask ``url`` (http://host:port) for ``tokens`` tokens; never raises for a server's fault. It has no deadline."""
    body = {
        "model": model,
        "prompt": list(prompt),
        "max_tokens": tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
    }
    begun, first, count, fault, rest = time.monotonic(), None, 0, "", b""
    try:
        async with session.post(f"{url}/v1/completions", json=body) as response:
            if response.status != 200:
                words = (await response.text(errors="replace"))[:160].strip()
                return Completion(time.monotonic() - begun, None, 0, f"HTTP {response.status}: {words}")
            async for data in response.content.iter_any():
                lines = (rest + data).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                        event = json.loads(line[5:])
                        fault = fault or ("error event: " + str(event["error"])[:160] if "error" in event else "")
                        if event.get("choices"):
                            first = time.monotonic() - begun if first is None else first
                            count += 1
                            on_token()
    except (aiohttp.ClientError, OSError, ValueError) as error:
        fault = f"{type(error).__name__}: {error}"[:160]
    if not fault and not count:
        fault = "the answer held no token"
    return Completion(time.monotonic() - begun, first, count, fault)


def one_token(url: str, model: str, timeout_s: float, *, given_up: Callable[[], bool] = lambda: False) -> Completion:
    """One token from a prompt of four, or the fault; ``no token for N s`` when none came in time.

    ``given_up`` is asked five times a second and ends the request early.
    """

    async def ask() -> Completion:
        begun = time.monotonic()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            task = asyncio.create_task(complete(session, url, model, (65, 66, 67, 68), 1))
            try:
                while (waited := time.monotonic() - begun) < timeout_s and not task.done() and not given_up():
                    await asyncio.wait({task}, timeout=min(_TICK_S, timeout_s - waited))
                silence = f"no token for {min(waited, timeout_s):.3g} s"
                return task.result() if task.done() else Completion(waited, None, 0, silence)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    return asyncio.run(ask())


def model_name(url: str, timeout_s: float = 5.0) -> str:
    """The first name that ``/v1/models`` lists; empty when the server does not say."""

    async def ask() -> str:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s)) as session,
            session.get(f"{url}/v1/models") as response,
        ):
            listing = await response.json(content_type=None)
            return str(listing["data"][0]["id"])

    try:
        return asyncio.run(ask())
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError, IndexError, TypeError):
        return ""
