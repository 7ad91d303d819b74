"""What came of it, first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from ungate.report.plots import intervals, starts
from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 10
TITLE = "Verdict"


def body(document: Document) -> str | None:
    """The verdict of each cell, the ratios and every start; None for a run that stopped before it."""
    verdicts = document.get("verdicts")
    if not verdicts:
        return None
    metric = (document.get("recipe") or {}).get("metric", "")
    samples = [s for s in document.get("samples") or () if s["metric"] == metric and s["value"]]
    rows = [{"cell": _cell(s["cell"]), "start": s["start"] + 1, "arm": s["arm"], "value": s["value"]} for s in samples]
    several = len({v.get("arm") for v in verdicts}) > 1
    drawn = [v for v in verdicts if v["low"] is not None]
    return html(
        __name__,
        verdicts=[{**v, "cell": _named(v, several)} for v in verdicts],
        plan=document.get("plan"),
        early=[_in_words(sentence, verdicts) for sentence in document.get("early") or ()],
        ratio_plot=Markup(intervals([_drawn(v, several) for v in drawn])) if drawn else None,
        start_plot=Markup(starts(rows, samples[0]["unit"])) if rows else None,
    )


def _drawn(verdict: dict[str, Any], several: bool) -> dict[str, Any]:
    return {"arm": "candidate", **verdict, "cell": _named(verdict, several)}


def _in_words(sentence: str, verdicts: Sequence[dict[str, Any]]) -> str:
    """A sentence with each cell called as the page calls it."""
    for cell in (verdict["cell"] for verdict in verdicts):
        short = f"c{cell['concurrency']}-i{cell['prompt_tokens']}-o{cell['output_tokens']}"
        sentence = re.sub(rf"\b{short}\b", _cell(cell), sentence)
    return sentence


def _named(verdict: dict[str, Any], several: bool) -> str:
    cell = _cell(verdict["cell"])
    return f"{cell}, {verdict.get('arm', 'candidate')}" if several else cell


def _cell(cell: dict[str, int]) -> str:
    return f"{cell['concurrency']} at once, {cell['prompt_tokens']} in, {cell['output_tokens']} out"
