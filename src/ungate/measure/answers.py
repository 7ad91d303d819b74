"""Greedy answers with log probabilities, over the shapes at which a kernel is dispatched differently."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import aiohttp

from ungate.measure.prompts import TOKEN_RANGE, prompt
from ungate.model import Cell

__all__ = ["THRESHOLDS", "Answer", "Answers", "Rung", "collect", "rungs"]

THRESHOLDS: tuple[int, ...] = (16, 128)
"""Row counts at which allreduce kernels are known to change: below 17 tokens a two-shot kernel is never reached, and
SGLang fuses up to 128 (FUSE_ALLREDUCE_MAX_BATCH_SIZE)."""

_SILENT, _UNASKED = "no answer", "not asked, after"
_ALTERNATIVES = 2  # the chosen token and the runner-up: enough to see a tie


@dataclass(frozen=True, slots=True)
class Rung:
    """One shape: requests at once (the rows of a decode step), prompt tokens (the rows of a prefill), output tokens."""

    concurrency: int
    prompt_tokens: int
    output_tokens: int = 16

    def __str__(self) -> str:
        return f"{self.concurrency} at once, {self.prompt_tokens} in, {self.output_tokens} out"


@dataclass(frozen=True, slots=True)
class Answer:
    """Tokens (as the server names them), their log probabilities in nats (None: not a number), the alternatives.

    ``top`` holds, for each position, the log probability of the likeliest tokens by name. ``fault`` is empty or why
    there is no answer; ``late``: it did not come in time, which says nothing of what it would have been.
    """

    tokens: tuple[str, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    top: tuple[Mapping[str, float], ...] = ()
    fault: str = ""

    @property
    def late(self) -> bool:
        return self.fault.startswith((_SILENT, _UNASKED))


@dataclass(frozen=True, slots=True)
class Answers:
    """For each rung its repeats, for each repeat the answers in the order of the prompts."""

    rungs: tuple[tuple[Rung, tuple[tuple[Answer, ...], ...]], ...]


def rungs(
    cell: Cell, *, thresholds: Sequence[int] = THRESHOLDS, output_tokens: int = 16, longest: int | None = None
) -> tuple[Rung, ...]:
    """The ladder for a cell: prefill rows around each threshold, one and N at once, short and long context.

    ``longest`` bounds prompt plus output to what the server takes (its maximum model length).
    """
    prompts = {1, 2, cell.prompt_tokens}
    for threshold in thresholds:
        prompts |= {threshold - 1, threshold, threshold + 1}
    prompts.add(4 * max(*thresholds, cell.prompt_tokens))
    limit = math.inf if longest is None else longest - output_tokens
    fitting = sorted(length for length in prompts if 1 <= length <= limit)
    ladder = [Rung(1, length, output_tokens) for length in fitting]
    ladder += [Rung(count, cell.prompt_tokens, output_tokens) for count in sorted({2, cell.concurrency} - {1})]
    if cell.concurrency > 1 and fitting:
        ladder.append(Rung(cell.concurrency, fitting[-1], output_tokens))
    return tuple(dict.fromkeys(rung for rung in ladder if rung.prompt_tokens <= limit))


def collect(
    url: str,
    model: str,
    ladder: Sequence[Rung],
    *,
    repeats: int = 1,
    timeout_s: float = 120.0,
    token_range: tuple[int, int] = TOKEN_RANGE,
    on_answers: Callable[[int], None] = lambda count: None,
) -> Answers:
    """Ask every rung's prompts, the same for every server; with ``repeats`` above 1 each rung that often.

    A request that fails is an answer with a fault, never an exception; after one that got no answer in time the
    rest is not asked. ``on_answers`` is told how many answers there are so far, after each round.
    """
    endpoint = url.rstrip("/") + "/v1/completions"
    return asyncio.run(_collect(endpoint, model, ladder, repeats, timeout_s, token_range, on_answers))


async def _collect(
    endpoint: str,
    model: str,
    ladder: Sequence[Rung],
    repeats: int,
    timeout_s: float,
    token_range: tuple[int, int],
    on_answers: Callable[[int], None],
) -> Answers:
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        found = []
        silent, count = "", 0
        for rung in ladder:
            prompts = [prompt(rung.prompt_tokens, i, rung.prompt_tokens, token_range) for i in range(rung.concurrency)]
            rounds = []
            for _ in range(repeats):
                if silent:
                    rounds.append(tuple(Answer(fault=f"{_UNASKED} {silent}") for _ in prompts))
                    continue
                answers = await asyncio.gather(*(_ask(session, endpoint, model, ids, rung) for ids in prompts))
                rounds.append(tuple(answers))
                count += sum(not answer.fault for answer in answers)
                on_answers(count)
                # A server that has gone silent would make every further rung wait for its deadline.
                silent = next((answer.fault for answer in answers if answer.fault.startswith(_SILENT)), "")
            found.append((rung, tuple(rounds)))
    return Answers(tuple(found))


async def _ask(session: aiohttp.ClientSession, endpoint: str, model: str, ids: Sequence[int], rung: Rung) -> Answer:
    body = {
        "model": model,
        "prompt": list(ids),
        "max_tokens": rung.output_tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "logprobs": _ALTERNATIVES,
        # vLLM names tokens by id with this; texts of different tokens can be equal (a half character is "").
        "return_tokens_as_token_ids": True,
    }
    try:
        async with session.post(endpoint, json=body) as response:
            if response.status != 200:
                return Answer(fault=f"HTTP {response.status}: {(await response.text(errors='replace'))[:160].strip()}")
            return _read(await response.json(content_type=None))
    except TimeoutError:
        return Answer(fault=f"{_SILENT} for {session.timeout.total or 0:g} s")
    except (aiohttp.ClientError, OSError, ValueError, LookupError, TypeError) as error:
        return Answer(fault=f"{type(error).__name__}: {error}"[:160])


def _read(body: Mapping[str, object]) -> Answer:
    choices = body["choices"]
    assert isinstance(choices, list)
    found = choices[0].get("logprobs")
    if not found:
        return Answer(fault="the server gave no log probabilities")
    return Answer(
        tuple(str(token) for token in found["tokens"]),
        tuple(_number(value) for value in found["token_logprobs"]),
        tuple(_table(row) for row in found.get("top_logprobs") or ()),
    )


def _table(row: Mapping[str, object] | None) -> Mapping[str, float]:
    return {token: number for token, value in (row or {}).items() if (number := _number(value)) is not None}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
