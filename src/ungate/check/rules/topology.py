"""A feature that maps the memory of other GPUs, on a host whose GPUs have no peer access.

It starts, and then polls memory that is not what it takes it for: a hang, garbage, or 100 % utilisation at low
power and a small share of the throughput.

As printed::

    terminal  GPUs 0 and 1 have no peer access (chipset not supported); the feature maps peer memory
"""

from __future__ import annotations

from collections.abc import Iterator

from ungate.check.question import Question
from ungate.model import Finding, Reached
from ungate.plain import counted

__all__ = ["find"]


def find(question: Question) -> Iterator[Finding]:
    """Terminal where the driver denies peer access, a warning where it is not known."""
    if not question.needs_peer_access:
        return
    helps = f"Use instead: {question.instead}." if question.instead else "Leave the feature off on this host."
    facts = question.facts
    if facts is None or len(facts.gpus) < 2 or not facts.links:
        count = "no facts of the serving host" if facts is None else f"{counted(len(facts.gpus), 'GPU')} on this host"
        yield Finding(
            rule="topology",
            severity="note",
            what=f"the feature maps the memory of other GPUs, and whether they have peer access is not known ({count})",
            advice="On the serving host run: ungate doctor --json > host.json, and pass it here: --facts host.json",
            confidence="high",
        )
        return
    denied = [link for link in facts.links if link.read is False or link.write is False]
    if denied:
        link = denied[0]
        more = f", and {counted(len(denied) - 1, 'more pair')}" if len(denied) > 1 else ""
        why = f" ({link.reason})" if link.reason else ""
        yield Finding(
            rule="topology",
            severity="terminal",
            what=f"GPUs {link.first} and {link.second} have no peer access{why}{more}; the feature maps peer memory",
            advice=helps,
            evidence=f"driver: read {link.read}, write {link.write}, path {link.path}",
            reached=Reached.YES,
        )
        return
    unknown = [link for link in facts.links if link.read is None or link.write is None]
    if unknown:
        yield Finding(
            rule="topology",
            severity="warning",
            what=f"the driver does not say whether GPUs {unknown[0].first} and {unknown[0].second} have peer access",
            advice=f"Measure it: ungate-allreduce tune. {helps}",
            confidence="medium",
        )
