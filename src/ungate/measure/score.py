"""A small task score where the user gives a program for one: the last rung of the correctness ladder.

A loss of a few points of accuracy shows in no single log probability; only a task can see it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ungate.host.children import run, tail

__all__ = ["Score", "score"]


@dataclass(frozen=True, slots=True)
class Score:
    """``value`` as the program printed it, None with the reason in ``note`` when there is none. ``seconds`` it took."""

    value: float | None
    seconds: float
    note: str = ""


def score(argv: Sequence[str], *, url: str, model: str, folder: Path, deadline_s: float = 1800.0) -> Score:
    """Run the user's program against a server and read its score.

    ``{url}`` (http://host:port) and ``{model}`` in its words are replaced. Its last line on standard output must be a
    number or a JSON object with ``score``; higher is better. Its output is kept as ``score.out`` and ``score.log``
    in ``folder``. A program that fails or prints no number gives no score, never a score of 0.
    """
    words = [word.replace("{url}", url).replace("{model}", model) for word in argv]
    output = folder / "score.out"
    outcome = run(words, deadline_s=deadline_s, log=folder / "score.log", stdout=output)
    if outcome.timed_out:
        return Score(None, outcome.seconds, f"{argv[0]} did not end within {deadline_s:g} s")
    if outcome.code != 0:
        return Score(None, outcome.seconds, f"{argv[0]} ended with exit code {outcome.code}")
    lines = [line for line in tail(output).splitlines() if line.strip()]
    value = _read(lines[-1]) if lines else None
    note = "" if value is not None else f"{argv[0]} printed no score on its last line"
    return Score(value, outcome.seconds, note)


def _read(line: str) -> float | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    if isinstance(value, dict):
        value = value.get("score")
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if number else None
