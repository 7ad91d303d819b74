"""Tokens per second of the lab's two arms, alternating: ``python benchmarks/lab.py [--tp 2 4] [--rounds 3]``.

Both arms run the same installed files on a capability for which every gate is open (9.0), so that nothing
but ``--enable-fused-allreduce`` differs. A round starts each server anew.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from ungate.lab.install import Lab, command, environment, install

PROMPT_TOKENS, OUTPUT_TOKENS = 32, 64


@contextmanager
def serving(lab: Lab, cache: Path, tp: int, fused: bool) -> Iterator[tuple[str, float]]:
    """URL of a fresh server, and the seconds until /health answered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {**os.environ, **environment(lab, arch="9.0", cache=cache)}
    started = time.monotonic()
    argv = command(lab, port=port, tp=tp, fused=fused)
    with subprocess.Popen(argv, env=variables, stderr=subprocess.DEVNULL) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            asyncio.run(until_healthy(url))
            yield url, time.monotonic() - started
        finally:
            server.terminate()


async def until_healthy(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(600):
            try:
                async with session.get(f"{url}/health") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
    raise TimeoutError(f"{url} was not ready within 30 s")


async def load(url: str, concurrency: int, seconds: float) -> float:
    """Output tokens per second over ``seconds``, with ``concurrency`` streams at any time, after one request."""
    counted = 0
    numbers = itertools.count()

    async def one(session: aiohttp.ClientSession, tokens: int) -> None:
        nonlocal counted
        number = next(numbers)
        prompt = [(number * 31 + position * 7) % 256 for position in range(PROMPT_TOKENS)]
        body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "stream": True}
        async with session.post(f"{url}/v1/completions", json=body) as answer:
            assert answer.status == 200
            async for line in answer.content:
                assert b'"error"' not in line, line
                counted += b'"text"' in line

    async def forever(session: aiohttp.ClientSession) -> None:
        while True:
            await one(session, OUTPUT_TOKENS)

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120)) as session:
        await one(session, 8)
        counted, started = 0, time.monotonic()
        streams = [asyncio.create_task(forever(session)) for _ in range(concurrency)]
        ended, _ = await asyncio.wait(streams, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for stream in ended:
            stream.result()
        rate = counted / (time.monotonic() - started)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tp", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores; {PROMPT_TOKENS} prompt and {OUTPUT_TOKENS} output tokens")
    with tempfile.TemporaryDirectory() as folder:
        lab, cache = install(Path(folder) / "site"), Path(folder) / "cache"
        for tp in options.tp:
            rates: dict[tuple[bool, int], list[float]] = {}
            starts: list[float] = []
            for turn in range(options.rounds):
                for fused in (False, True) if turn % 2 == 0 else (True, False):
                    with serving(lab, cache, tp, fused) as (url, seconds):
                        starts.append(seconds)
                        for concurrency in options.concurrency:
                            rate = asyncio.run(load(url, concurrency, options.seconds))
                            rates.setdefault((fused, concurrency), []).append(rate)
            print(f"tp {tp}: start {statistics.median(starts):.2f} s (most {max(starts):.2f})")
            for (fused, concurrency), values in sorted(rates.items(), key=lambda item: (item[0][1], item[0][0])):
                listed = " ".join(f"{value:7.1f}" for value in values)
                print(f"  c{concurrency} {'fused' if fused else 'own  '} {listed}  tok/s")


if __name__ == "__main__":
    main()
