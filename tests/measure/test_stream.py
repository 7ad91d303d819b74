from __future__ import annotations

import asyncio

import pytest

from ungate.measure.stream import Outcome, Request, complete, session


def ask(url: str, *, tokens: int = 8, stall_s: float = 2.0) -> Outcome:
    async def go() -> Outcome:
        async with session() as client:
            return await complete(client, f"{url}/v1/completions", Request(0, "fake", (40, 41, 42), tokens, stall_s))

    return asyncio.run(go())


def test_a_good_answer_is_good(fake: str) -> None:
    outcome = ask(f"{fake}/none/1")
    assert outcome.ok and outcome.tokens == 8 and outcome.prompt_tokens == 3 and outcome.finish == "length"
    assert len(outcome.times) == 8
    assert list(outcome.times) == sorted(outcome.times)
    assert outcome.start <= outcome.times[0] <= outcome.end


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("http-500", "HTTP 500"),
        ("early-end", "finish reason missing"),
        ("error-event", "error event: EngineCore died"),
        ("cut", "connection lost"),
        ("wrong-usage", "usage says 4 output tokens, asked for 8"),
        ("wrong-prompt", "usage says 5 prompt tokens, sent 3"),
        ("finish-stop", "finish reason stop"),
        ("hang", "no token came for 0.5 s"),
        ("silent", "no token came for 0.5 s"),
        ("no-done", "without [DONE]"),
        ("garbage", "no JSON"),
        ("no-such-fault", "HTTP 404"),
    ],
)
def test_every_fault_is_told_in_its_own_words(fake: str, fault: str, words: str) -> None:
    outcome = ask(f"{fake}/{fault}/1", stall_s=0.5)
    assert not outcome.ok
    assert words in outcome.fault


def test_a_cancelled_request_is_kept_with_what_it_had(fake: str) -> None:
    kept: list[Outcome] = []

    async def go() -> None:
        async with session() as client:
            request = Request(3, "fake", (40, 41), 2000)
            task = asyncio.create_task(complete(client, f"{fake}/none/1/v1/completions", request, keep=kept.append))
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(go())
    assert len(kept) == 1 and kept[0].cut and kept[0].index == 3
    assert len(kept[0].times) > 3 and kept[0].tokens is None
