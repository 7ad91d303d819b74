"""Ask ptxas itself whether it assembles a piece of PTX for a target; its answers are kept by content.

The pieces of one call go into one module, each in an entry of its own, so that one run of ptxas judges them all: it
reports every instruction that the target lacks. An error in the syntax ends its reading early; the piece is then taken
out and the rest is read again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ungate.errors import Refusal
from ungate.host import children, toolchain
from ungate.host.folders import cache_dir
from ungate.host.keeping import keep
from ungate.model import Target

__all__ = ["available", "refusals"]

_DEADLINE_S = 120.0
_KEPT = 20_000
_ERROR = re.compile(r"^ptxas \S+, line (?P<line>\d+); (?:error|fatal)\s*: (?P<text>.+)$", re.MULTILINE)
_CURRENT = re.compile(r"current version is '([\d.]+)'")
_NO_TARGET = re.compile(r"Value '\S+' is not defined for option 'gpu-name'")


def available() -> bool:
    """Whether there is a ptxas to ask."""
    return toolchain.find("ptxas") is not None


@functools.cache
def _isa() -> str:
    """The newest PTX version that this ptxas reads, as it says itself when it is given a later one."""
    said = _run(".version 99.9\n.target sm_90\n.address_size 64\n", Target(90)).output
    found = _CURRENT.search(said)
    if found is None:
        raise Refusal(
            f"{toolchain.need('ptxas')} does not say which PTX version it reads: {said.strip()[:200]}",
            "Check it: ptxas --version",
        )
    return found[1]


def _run(module: str, target: Target) -> children.Outcome:
    with tempfile.TemporaryDirectory(prefix="ungate-ptx-") as folder:
        source = Path(folder) / "probe.ptx"
        source.write_text(module, encoding="latin-1")
        # -O0: whether an instruction exists is decided before anything is optimised.
        command: list[str | Path] = [toolchain.need("ptxas"), f"-arch={target}", "-O0", source, "-o", "/dev/null"]
        outcome = children.run(command, deadline_s=_DEADLINE_S)
    if outcome.timed_out:
        raise Refusal(f"ptxas did not end within {_DEADLINE_S:.0f} s for {target}.", "Run the command again.")
    return outcome


def refusals(pieces: Sequence[str], target: Target) -> tuple[str | None, ...] | None:
    """For each piece what ptxas says against it for the target, None where it assembles it.

    A piece is the inside of an entry: declarations and instructions. None for all of them where this ptxas does not
    know the target. Refusal without a ptxas.
    """
    version = toolchain.tool("ptxas")
    name = f"ptxas-{version.version if version else 'unknown'}-{target}.json"
    store = cache_dir() / "assembler" / name
    kept = _load(store)
    keys = [hashlib.sha256(piece.encode("latin-1", "replace")).hexdigest()[:32] for piece in pieces]
    missing = {key: piece for key, piece in zip(keys, pieces, strict=True) if key not in kept}
    if missing:
        judged = _judge(missing, target)
        if judged is None:
            return None
        kept = {**_load(store), **judged}  # read again: another process may have written meanwhile
        newest = dict(list(kept.items())[-_KEPT:])
        keep(store, json.dumps(newest, separators=(",", ":")).encode())
    return tuple(kept[key] or None for key in keys)


def _load(store: Path) -> dict[str, str]:
    try:
        content = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _judge(pieces: Mapping[str, str], target: Target) -> dict[str, str] | None:
    """The answer of ptxas by key, empty where it has nothing against a piece."""
    answers: dict[str, str] = {}
    batches = [dict(pieces)]
    while batches:
        batch = batches.pop()
        module, places = _module(batch.values(), target)
        outcome = _run(module, target)
        if _NO_TARGET.search(outcome.output):
            return None
        if outcome.code == 0:
            answers.update(dict.fromkeys(batch, ""))
            continue
        refused: dict[str, list[str]] = {}
        for error in _ERROR.finditer(outcome.output):
            key = _at(int(error["line"]), places, list(batch))
            if key is not None:
                refused.setdefault(key, []).append(error["text"].strip())
        if not refused and len(batch) == 1:
            said = " ".join(outcome.output.split())[:400]
            refused = {key: [said or f"ptxas ended with {outcome.code}"] for key in batch}
        answers.update({key: "; ".join(dict.fromkeys(said)) for key, said in refused.items()})
        left = {key: piece for key, piece in batch.items() if key not in refused}
        if refused:
            batches += [left] if left else []
        else:  # it names no line: then by halves
            keys, middle = list(left), len(left) // 2
            batches += [{key: left[key] for key in half} for half in (keys[:middle], keys[middle:])]
    return answers


def _module(pieces: Iterable[str], target: Target) -> tuple[str, list[int]]:
    """A PTX module with one entry a piece, and the line at which each entry begins."""
    lines = [f".version {_isa()}", f".target {target}", ".address_size 64"]
    places = []
    for number, piece in enumerate(pieces):
        places.append(len(lines) + 1)
        lines += [f".visible .entry ungate_probe_{number}()", "{", *piece.split("\n"), "ret;", "}"]
    return "\n".join(lines) + "\n", places


def _at(line: int, places: Sequence[int], keys: Sequence[str]) -> str | None:
    found = None
    for place, key in zip(places, keys, strict=True):
        if place <= line:
            found = key
    return found
