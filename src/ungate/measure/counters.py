"""A server's own counters: the Prometheus text of its metrics endpoint."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping

__all__ = ["chosen", "parse", "read", "total"]

_LINE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{[^}]*\})?\s+(?P<value>[-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|Inf|NaN))\b")


def parse(text: str) -> dict[str, float]:
    """Each metric's value, summed over its labels; lines that are no samples are left out."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            values[match["name"]] = values.get(match["name"], 0.0) + float(match["value"])
    return values


def read(url: str, path: str = "/metrics", timeout_s: float = 5.0) -> Mapping[str, float] | None:
    """The counters at ``url`` + ``path``, or None when the server has no such endpoint or does not answer."""
    try:
        with urllib.request.urlopen(url + path, timeout=timeout_s) as response:
            return parse(response.read().decode("utf-8", "replace"))
    except (urllib.error.URLError, OSError, ValueError):
        return None


def chosen(url: str, names: Iterable[str], path: str = "/metrics") -> Mapping[str, float]:
    """Those of ``names`` that the server has now; empty when it does not answer within a second."""
    found = read(url, path, timeout_s=1.0) or {}
    return {name: found[name] for name in names if name in found}


def total(counters: Mapping[str, float] | None, names: Iterable[str]) -> float | None:
    """The sum of those of ``names`` that the server has; None when it has none of them."""
    found = [counters[name] for name in names if name in counters] if counters is not None else []
    return sum(found) if found else None
