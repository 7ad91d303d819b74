"""Which kernel serves a message: the measured table where there is one, the formula otherwise."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from .errors import Unsupported
from .variant import STAGED_WORDS, Dtype, Line, Quant, Variant, fitting, up

__all__ = [
    "GEN4_X8",
    "GEN4_X16",
    "GEN5_X16",
    "NCCL_FROM",
    "Choice",
    "Link",
    "Table",
    "crossover",
    "predict",
    "realise",
    "seed",
]


@dataclass(frozen=True)
class Link:
    """What a GPU's path to host memory costs: microseconds, and GB/s in each direction.

    ``start_us`` is the cost of a call without bytes (graph node, load, posted write, about 1.5 polls, reduce),
    ``hop_us`` that of one more signal through host memory, as two-shot needs.
    """

    start_us: float = 3.2
    hop_us: float = 1.8
    write_gbs: float = 50.0
    read_gbs: float = 50.0


GEN5_X16 = Link()
GEN4_X16 = Link(write_gbs=25.0, read_gbs=25.0)
GEN4_X8 = Link(write_gbs=12.5, read_gbs=12.5)


NCCL_FROM = 1 << 20
"""Bytes from which LL8 over host memory is no faster than NCCL: 69 against 62 us at 1 MiB (2 H200, Gen5 x16)."""


@dataclass(frozen=True)
class Choice:
    """How to run a message. ``transport`` "nccl" leaves it to the group's own allreduce."""

    transport: str = "host"
    line: int = int(Line.LL8)
    shots: int = 1
    threads: int = 512
    split: int = 1
    vec: int = 1
    lag: int = 0
    pause: int = 0
    us: float | None = None


def predict(world: int, size: int, line: Line, shots: int, link: Link) -> float:
    """Microseconds of one call on ``size`` bytes a rank.

    One-shot: ``T0 + f S / Bw + f (N - 1) S / Br``. Two-shot: ``T0 + Th + f S / Bw + f 2 (N - 1) / N S / Br``.
    f is the line format's expansion.
    """
    wire = line.expansion * size / 1e3
    reads = (world - 1) if shots == 1 else 2 * (world - 1) / world
    hop = link.hop_us if shots == 2 else 0.0
    return link.start_us + hop + wire / link.write_gbs + reads * wire / link.read_gbs


def crossover(world: int, line: Line, link: Link) -> float:
    """Bytes above which two-shot is predicted to win; infinite for two ranks.

    ``S* = Th B / (f ((N - 1) - 2 (N - 1) / N))``.
    """
    saved = (world - 1) - 2 * (world - 1) / world
    if saved <= 0:
        return math.inf
    return link.hop_us * 1e3 * link.read_gbs / (line.expansion * saved)


def seed(
    world: int, size: int, link: Link = GEN5_X16, *, line: Line = Line.LL8, nccl_from: int | None = NCCL_FROM
) -> Choice:
    """The formula's choice: LL8, which cannot accept stale data, with one or two shots; NCCL from ``nccl_from`` bytes.

    The 16-byte sentinel format is left to the tuner, which checks results before it times.
    """
    if nccl_from is not None and size >= nccl_from:
        return Choice(transport="nccl")
    shots = 2 if world >= 4 and size > crossover(world, line, link) else 1
    return Choice(line=int(line), shots=shots, us=predict(world, size, line, shots, link))


def realise(
    choice: Choice,
    world: int,
    dtype: Dtype,
    rows: int,
    *,
    hidden: int = 0,
    gemma: bool = False,
    quant: Quant = Quant.NONE,
    norm_out: bool = True,
    aligned: bool = True,
    swizzled: bool = False,
    push: bool = False,
) -> Variant:
    """The kernel of a choice. A plain message has ``hidden`` 0 and ``rows`` elements."""
    if choice.transport == "nccl":
        raise Unsupported("The table keeps NCCL for this message.")
    line = Line(choice.line)
    threads = min(choice.threads, 1024 - (64 if line is Line.F16 else 32))
    parts = up(up(hidden * dtype.size, 4), STAGED_WORDS - 192) if hidden and line is Line.F12 else 1
    variant = Variant(
        split=parts,
        world=world,
        dtype=dtype,
        line=line,
        shots=choice.shots,
        hidden=hidden,
        threads=threads,
        gemma=gemma,
        quant=quant,
        norm_out=norm_out,
        aligned=aligned,
        swizzled=swizzled,
        push=push,
    )
    if not hidden:
        variant = replace(variant, vec=choice.vec)
    elif choice.split == 1:
        variant = fitting(variant)
    else:
        variant = fitting(replace(variant, split=max(parts, min(choice.split, up(variant.row_words, 64)))))
    if choice.lag and choice.shots == 1 and (world - 1) * variant.lines_a_thread <= 16:
        variant = replace(variant, lag=choice.lag)
    if choice.shots == 1 and world > 1:
        variant = replace(variant, pause=choice.pause)
    return variant


@dataclass(frozen=True)
class Table:
    """Measured choices of one host. ``fingerprint`` says for which; ``entries`` by :meth:`key`."""

    fingerprint: Mapping[str, str]
    entries: Mapping[str, Choice]

    @staticmethod
    def key(world: int, dtype: Dtype, pattern: str, size: int) -> str:
        """World, dtype, pattern and the power of two that holds ``size`` bytes."""
        return f"{world}/{dtype.name.lower()}/{pattern}/{max(size - 1, 1).bit_length()}"

    def choose(self, world: int, dtype: Dtype, pattern: str, size: int) -> Choice:
        """The measured choice, or the formula's where this was not measured."""
        found = self.entries.get(self.key(world, dtype, pattern, size))
        return found if found is not None else seed(world, size)

    def dump(self) -> str:
        """JSON text, stable under re-reading."""
        body = {
            "version": 1,
            "fingerprint": dict(self.fingerprint),
            "entries": {key: asdict(choice) for key, choice in sorted(self.entries.items())},
        }
        return json.dumps(body, indent=1, sort_keys=True) + "\n"

    @classmethod
    def read(cls, path: Path, fingerprint: Mapping[str, str]) -> Table:
        """A table from a file, refused in words when it was measured on another machine."""
        body = json.loads(path.read_text())
        if body.get("version") != 1:
            raise Unsupported(f"The tuning table {path} has another version. Run: ungate-allreduce tune")
        for name, value in fingerprint.items():
            other = body["fingerprint"].get(name)
            if other != value:
                raise Unsupported(
                    f"The tuning table {path} was measured with {name} {other!r}; this machine has {value!r}. "
                    "Run: ungate-allreduce tune"
                )
        entries = {key: Choice(**value) for key, value in body["entries"].items()}
        return cls(body["fingerprint"], entries)
