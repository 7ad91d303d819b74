"""The load client measured against a server whose timings and faults are known."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ungate.errors import Refusal
from ungate.host.children import Child, tail
from ungate.host.progress import Report, silent
from ungate.measure import load
from ungate.measure.fake import CACHE_HITS, FAULTS, RIGHT
from ungate.measure.result import LoadResult
from ungate.model import Cell

__all__ = ["Check", "Selfcheck", "fake_server", "selfcheck"]

TTFT_S, GAP_S = 0.05, 0.025
_ACCURACY = Cell(concurrency=64, prompt_tokens=64, output_tokens=32)
_REQUESTS = 256
_FAULTY = Cell(concurrency=6, prompt_tokens=16, output_tokens=8)
_TTFT_TOLERANCE = 0.05
_CPU_LIMIT_S = 2.0
_STALL_S = 1.0
_TRIES = 3
_WIDEST = 60  # characters of a fault in the table


@dataclass(frozen=True, slots=True)
class Check:
    """One thing the client must notice or measure. ``expected`` and ``seen`` are words for a person."""

    name: str
    what: str
    expected: str
    seen: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Selfcheck:
    """All checks and the seconds they took."""

    checks: tuple[Check, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


@contextmanager
def fake_server(ttft_s: float = TTFT_S, gap_s: float = GAP_S, *, deadline_s: float = 20.0) -> Iterator[str]:
    """A fake server in its own process for the length of the block; yields http://127.0.0.1:PORT."""
    with tempfile.TemporaryDirectory(prefix="ungate-fake-") as folder:
        log = Path(folder) / "log"
        argv = [sys.executable, "-m", "ungate.measure.fake", "--ttft", str(ttft_s), "--gap", str(gap_s)]
        with Child.start(argv, log=log) as child:
            end = time.monotonic() + deadline_s
            while not (listening := re.search(r"^listening (\d+)$", tail(log), re.MULTILINE)):
                if child.poll() is not None or time.monotonic() > end:
                    raise Refusal(
                        f"The fake server did not start; it said: {tail(log).strip() or 'nothing'}.",
                        "Try it by hand: python -m ungate.measure.fake",
                    )
                time.sleep(0.02)
            yield f"http://127.0.0.1:{listening[1]}"


def selfcheck(report: Report = silent) -> Selfcheck:
    """Run every check; takes about 15 s, most of it waiting."""
    begun = time.monotonic()
    checks: list[Check] = []
    with fake_server() as url:
        report("timings", 0, len(FAULTS))
        checks += _best_accuracy(url)
        for number, fault in enumerate(FAULTS):
            report(fault, number + 1, len(FAULTS))
            checks.append(_fault(url, fault, every=3))
        checks.append(_fault(url, "http-500", every=1))
    return Selfcheck(tuple(checks), time.monotonic() - begun)


def _best_accuracy(url: str) -> list[Check]:
    """Up to three tries, because other work on the machine only ever adds to a latency; the number of tries is told."""
    tries, checks = 1, _accuracy(url)
    while tries < _TRIES and not all(check.passed for check in checks):
        tries, checks = tries + 1, _accuracy(url)
    if tries == 1:
        return checks
    return [replace(check, seen=f"{check.seen} (try {tries} of {_TRIES})") for check in checks]


def _accuracy(url: str) -> list[Check]:
    """Compares with what the server wrote: on a busy machine that is later than what it was told to do."""
    load.run(f"{url}/none/1", "fake", _ACCURACY, requests=_ACCURACY.concurrency, warmup=0)
    _truth(url)
    result = load.run(f"{url}/none/1", "fake", _ACCURACY, requests=_REQUESTS, warmup=0, ramp_s=TTFT_S + 31 * GAP_S)
    truth = _truth(url)
    checks = [
        Check(
            "requests",
            "every request of a healthy server succeeds",
            f"{_REQUESTS} of {_REQUESTS}",
            f"{result.completed} of {_REQUESTS}" + "".join(f"; {fault}" for fault, _ in result.faults),
            result.completed == _REQUESTS and result.failed == 0,
        )
    ]
    for name, measured, true in (
        ("mean TTFT", result.ttft, truth.get("ttft_s")),
        ("mean e2e", result.e2e, truth.get("e2e_s")),
    ):
        near = measured is not None and true is not None and abs(measured.mean / true - 1) <= _TTFT_TOLERANCE
        checks.append(
            Check(
                name,
                f"within {_TTFT_TOLERANCE:.0%} of the truth at concurrency {_ACCURACY.concurrency} with a ramp",
                "unknown" if true is None else f"{true * 1000:.1f} ms",
                "none" if measured is None else f"{measured.mean * 1000:.1f} ms",
                near,
            )
        )
    checks.append(
        Check(
            "client CPU",
            f"{_REQUESTS} requests of {_ACCURACY.output_tokens} tokens",
            f"at most {_CPU_LIMIT_S:g} s",
            f"{result.client_cpu_s:.2f} s",
            result.client_cpu_s <= _CPU_LIMIT_S,
        )
    )
    return checks


def _fault(url: str, fault: str, every: int) -> Check:
    """Thirty requests, as many of them faulty as the period says; every faulty one must be noticed and no other."""
    _truth(url)
    result = load.run(
        f"{url}/{fault}/{every}", "fake", _FAULTY, requests=30, warmup=0, stall_s=_STALL_S, cache_hits=(CACHE_HITS,)
    )
    what = FAULTS[fault] + ("" if fault == "none" else " on all" if every == 1 else f", 1 in {every}")
    name = fault if every > 1 else f"{fault} on all"
    if fault == "glued":
        seen = "no gap seen" if result.zero_gaps is None else f"{result.zero_gaps:.0%} zero gaps"
        return Check(name, what, "cell marked invalid", f"{seen}; {_marked(result)}", not result.valid)
    if fault == "cached":
        seen = "no counter read" if result.cached is None else f"{result.cached:.0%} of the prompt tokens"
        return Check(name, what, "cell marked invalid", f"{seen}; {_marked(result)}", not result.valid)
    if fault == "two-a-chunk":
        itl = "ITL withheld" if result.itl is None else f"ITL {result.itl.mean * 1000:.0f} ms"
        passed = result.itl is None and result.completed == 30 and _near(result)
        return Check(name, what, "all tokens counted, ITL withheld", f"{_tokens(result):.0f} tokens, {itl}", passed)
    wanted = 0 if fault in RIGHT else 30 // every
    words = "; ".join(text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…" for text, _ in result.faults) or "no fault"
    # A healthy answer may still be marked invalid: on a starved machine its chunks do arrive glued together.
    passed = result.failed == wanted and result.completed == 30 - wanted and (not wanted or not result.valid)
    if not wanted:
        # What stands before the first token must not be taken for one.
        passed = passed and result.ttft is not None and result.ttft.mean >= 0.9 * _truth(url).get("ttft_s", 0.0)
    return Check(name, what, f"{wanted} of 30 failed", f"{result.failed} of 30: {words}", passed)


def _tokens(result: LoadResult) -> float:
    return (result.tokens_per_second or 0.0) * result.window_s


def _near(result: LoadResult) -> bool:
    """Whether the throughput rests on every token that was asked for."""
    return abs(_tokens(result) / (30 * _FAULTY.output_tokens) - 1) < 0.02


def _marked(result: LoadResult) -> str:
    return "marked invalid" if result.invalid else "taken as valid"


def _truth(url: str) -> Mapping[str, float]:
    with urllib.request.urlopen(f"{url}/truth", timeout=10) as response:
        truth: Mapping[str, float] = json.load(response)
    return truth
