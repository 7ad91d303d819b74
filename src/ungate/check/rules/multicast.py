"""Kernels that write to all GPUs at once through NVLink multicast, which only GPUs on an NVSwitch have.

GPUs that reach each other over PCIe or over bridged pairs have none. Its workspace may still be made there, and the
kernel then fails when it is captured into a graph, or never ends (vllm-project/vllm#48071).

As printed::

    terminal  GPUs 0 and 1 have no NVLink; trtllm_mnnvl_allreduce.cuh writes through NVLink multicast
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.check.question import Question
from ungate.model import Finding, Reached
from ungate.source.cuda.comments import block_comments, in_line_comment_or_string

__all__ = ["find"]

_USES = re.compile(
    r"\bmultimem\.(?:st|red|ld_reduce)\b|\b(?:multicast|mcast)_?(?:[bB]uffer_?)?[pP]tr\b|\bcuMulticastCreate\b"
)


def find(question: Question) -> Iterator[Finding]:
    """One finding for the first file on the way that does so."""
    place = _place(question)
    if place is None:
        return
    file, line, word = place
    facts = question.facts
    links = facts.links if facts is not None else ()
    without = [link for link in links if link.nvlink is False]
    name = file.rpartition("/")[2]
    does = f"{name} writes through NVLink multicast"
    helps = f"Use instead: {question.instead}." if question.instead else "Leave the feature off on such a host."
    if without:
        severity, what = "terminal", f"GPUs {without[0].first} and {without[0].second} have no NVLink; {does}"
    elif links and all(link.nvlink for link in links):
        severity, what = "note", f"{does}: NVLink is there, and whether the GPUs share an NVSwitch is not known"
    else:
        severity, what = "warning", f"{does}, and whether these GPUs have NVLink is not known"
        helps = f"On the serving host run: ungate doctor --json > host.json, and pass it here. {helps}"
    yield Finding(
        rule="multicast",
        severity=severity,
        what=what,
        advice=helps,
        evidence=f"line {line}: {word}",
        confidence="high" if without else "medium",
        file=file,
        line=line,
        reached=Reached.YES,
    )


def _place(question: Question) -> tuple[str, int, str] | None:
    seen: set[str] = set()
    for hop in question.chain.hops:
        path = question.path(hop.file)
        if hop.file in seen or path is None or path.suffix in {".py", ".so"}:
            continue
        seen.add(hop.file)
        text = path.read_bytes().decode("latin-1")
        comments = None
        for found in _USES.finditer(text):
            comments = comments or block_comments(text)
            commented = comments.holds(found.start()) or in_line_comment_or_string(text, found.start())
            if not commented or found[0].startswith("multimem"):  # an instruction stands in a string
                return hop.file, text.count("\n", 0, found.start()) + 1, found[0]
    return None
