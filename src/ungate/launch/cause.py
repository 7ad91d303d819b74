"""The first root cause in a log that several processes wrote at once.

The last line of such a log is seldom the reason: it says that something else failed, or it is the
notice of the process that was told to quit. A line's process is taken from its prefix, so that a
traceback stays whole when another process writes into it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ungate.launch.engines import Engine

__all__ = ["COLOUR", "Cause", "find"]

COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""Terminal sequences: some releases colour a process's prefix in a file too."""

_TIME = r"(?:\d{2,4}-\d{2}(?:-\d{2})?[ T])?\d{2}:\d{2}:\d{2}(?:[.,]\d+)?"
_PARTS = re.compile(
    r"(?P<pid>\([^()]*pid=\d+[^()]*\))\s*"  # (EngineCore pid=41), (RayWorkerWrapper pid=41, ip=10.0.0.2)
    rf"|\[{_TIME}(?:[ ](?P<rank>\w[^\]]*))?\]\s*"  # [2026-01-31 12:00:00 TP0]
    rf"|{_TIME}\s+"
    r"|(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ]\s*"
    r"|\[(?P<who>[\w-]+)\]\s*"  # [TP0]
    r"|\[[\w./]+:\d+\]\s?"  # [core.py:700]
)
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Failure|Interrupt|Warning)(?::|$)"
    r"|^(?:AssertionError|KeyboardInterrupt|SystemExit|StopIteration|MemoryError)\b"
)
_TRACEBACK = "Traceback (most recent call last):"
_KILLED = re.compile(r"exit code:? ?-\d+|Segmentation fault|Fatal Python error|core dumped|signal \d+ ")
_TOLD_TO_QUIT = (r"^KeyboardInterrupt\b", r"^SystemExit\b")
_BEFORE = re.compile(r"\b(?:fail(?:ed|s|ure)?|could not|cannot|unable|not supported|No supported)\b", re.IGNORECASE)
_CONTEXT = 3
_LONGEST = 400  # characters of a cause; an engine prints its whole configuration in one line


@dataclass(frozen=True, slots=True)
class Cause:
    """``line`` is the 1-based line of the log, ``text`` its words without prefix, ``process`` the prefix.

    ``kind`` is exception, fatal, error, echo or last, from the surest to the least sure; ``before`` are up to
    three earlier lines of the same process that spoke of a failure: a cause is sometimes logged once, as a warning.
    """

    line: int
    text: str
    process: str
    kind: str
    before: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.process} {self.text}".strip() + f" (line {self.line} of the log)"


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    process: str
    level: str
    text: str


def _read(log: str) -> list[_Line]:
    lines = []
    # Only a line feed ends a line for whoever looks it up; a progress bar rewrites its line with carriage returns.
    for number, line in enumerate(log.removesuffix("\n").split("\n") if log else (), 1):
        raw = COLOUR.sub("", line).rstrip("\r").rpartition("\r")[2]
        process, level, at = "", "", 0
        while match := _PARTS.match(raw, at):
            process = match["pid"] or match["rank"] or match["who"] or process
            level, at = match["level"] or level, match.end()
        lines.append(_Line(number, process, level, raw[at:].rstrip()))
    return lines


def _exceptions(lines: list[_Line]) -> list[_Line]:
    """The closing line of each traceback; a process that is inside one has said so in a line of its own."""
    inside: dict[str, bool] = {}
    owner = ""
    found = []
    for line in lines:
        if line.text.rstrip().endswith(_TRACEBACK):
            # Where one log record holds the whole traceback, only its first line has a prefix.
            inside[line.process] = inside[""] = True
            owner = line.process
        elif inside.get(line.process) and line.level not in {"INFO", "DEBUG"} and _EXCEPTION.match(line.text):
            inside[line.process] = False
            found.append(replace(line, process=line.process or owner))
    return found


def find(log: str, engine: Engine) -> Cause | None:
    """The first cause in ``log`` (the text of this start only); None for an empty log."""
    lines = _read(log)
    echoes = [re.compile(pattern) for pattern in (*engine.echoes, *_TOLD_TO_QUIT)]
    fatal = [re.compile(pattern) for pattern in engine.fatal]

    def deadly(line: _Line) -> bool:
        return bool(_KILLED.search(line.text)) or any(pattern.search(line.text) for pattern in fatal)

    def echo(line: _Line) -> bool:
        # A line that names the dead process is a cause, whatever else it announces.
        return not deadly(line) and any(pattern.search(line.text) for pattern in echoes)

    exceptions = _exceptions(lines)
    causes = [(line, "exception") for line in exceptions if not echo(line) and line.level != "WARNING"]
    causes += [(line, "fatal") for line in lines if deadly(line)]
    if not causes:
        causes = [(line, "error") for line in lines if line.level in {"ERROR", "CRITICAL"} and not echo(line)]
        causes = [(line, kind) for line, kind in causes if line.text and not line.text.endswith(_TRACEBACK)]
    if not causes:
        causes = [(line, "error") for line in lines if _EXCEPTION.match(line.text) and not echo(line)]
    if not causes:
        causes = [(line, "echo") for line in lines if echo(line)]
    if not causes:
        causes = [(line, "last") for line in lines[::-1] if line.text.strip()][:1]
    if not causes:
        return None
    first, kind = min(causes, key=lambda item: item[0].number)
    earlier = [line for line in lines if line.number < first.number and line.process == first.process]
    spoken = [line for line in earlier if _BEFORE.search(line.text)]
    inside = {line.text.strip() for line in lines if line.text.startswith((" ", "\t"))}
    before = [line.text.strip()[:_LONGEST] for line in spoken if line.text.strip() not in inside and not echo(line)]
    return Cause(first.number, first.text.strip()[:_LONGEST], first.process, kind, tuple(before[-_CONTEXT:]))
