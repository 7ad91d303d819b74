"""One compiled form of the kernel: what it computes, and how a message is cut for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import IntEnum

from .errors import Unsupported

__all__ = ["MAX_WORLD", "STAGED_WORDS", "Dtype", "Line", "Quant", "Variant", "fitting", "up"]

MAX_WORLD = 16
STAGED_WORDS = 11264
"""Words of a row part in shared memory, of the 48 KiB that a block has on every architecture."""


class Dtype(IntEnum):
    """Element type of input, residual, weight and output; the value is the kernel's DTYPE macro."""

    FLOAT32 = 0
    FLOAT16 = 1
    BFLOAT16 = 2

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return 4 if self is Dtype.FLOAT32 else 2


class Line(IntEnum):
    """Format of a 16-byte line; the value is the number of its 4-byte data words.

    LL8: each 8 bytes are data and tag (8-byte atomicity, which PTX promises). F12: 12 bytes of data and one
    tag (16-byte atomicity, which nothing promises: only after the tear test). F16: 16 bytes of data, arrival
    seen by a sentinel in every word (4-byte atomicity) and the sentinel put back after reading.
    """

    LL8 = 2
    F12 = 3
    F16 = 4

    @property
    def expansion(self) -> float:
        """Bytes on the wire for each byte of data."""
        return 4 / int(self)


class Quant(IntEnum):
    """What is written besides or instead of the normalised row."""

    NONE = 0
    FP8_STATIC = 1
    FP8_TOKEN = 2
    NVFP4 = 3


def up(a: int, b: int) -> int:
    """``a / b`` rounded up."""
    return -(-a // b)


@dataclass(frozen=True)
class Variant:
    """Compile-time choices of one kernel.

    ``hidden`` is the row length of the fused operation, 0 for plain allreduce. ``split`` is the number of
    blocks a row is cut over (fused), ``vec`` the number of lines a thread holds (plain). With ``lag`` a thread asks
    for its peers' line v after it has sent its own line v + lag, so that large messages go both ways at once; with
    ``pause`` it waits so many clock cycles before it asks at all. With ``push`` a rank writes a copy to each peer,
    else one slot that all read. ``virtual`` ranks share a
    launch, and a ``frozen`` kernel makes the same call for ever; both are for checks and timing on one GPU.
    """

    world: int
    dtype: Dtype
    line: Line
    shots: int = 1
    hidden: int = 0
    threads: int = 512
    split: int = 1
    vec: int = 1
    lag: int = 0
    pause: int = 0
    gemma: bool = False
    quant: Quant = Quant.NONE
    norm_out: bool = True
    aligned: bool = True
    swizzled: bool = False
    push: bool = False
    virtual: int = 1
    frozen: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.world <= MAX_WORLD:
            raise Unsupported(f"World size {self.world} is outside 1 to {MAX_WORLD}.")
        if self.shots not in (1, 2) or (self.shots == 2 and self.world < 2):
            raise Unsupported(f"{self.shots} shots in a world of {self.world} do not exist.")
        if self.threads % 32 or not 32 <= self.block <= 1024:
            raise Unsupported(f"{self.threads} worker threads do not make a block (32 to {1024 - self.service}).")
        if not self.hidden and (self.quant or self.split != 1):
            raise Unsupported("Plain allreduce has neither rows to split nor anything to quantise.")
        if self.quant is Quant.NVFP4 and (self.hidden % 16 or not self.aligned):
            raise Unsupported(f"NVFP4 needs aligned rows of whole 16-element blocks; hidden is {self.hidden}.")
        if self.lag and (self.shots == 2 or (self.world - 1) * self.lines_a_thread > 16):
            raise Unsupported("Reading behind the push needs one shot and all lines of a thread in registers at once.")
        if self.line is Line.F12 and self.hidden and self.part_words > STAGED_WORDS:
            raise Unsupported(
                f"F12 stages a row part of at most {STAGED_WORDS} words in shared memory; this has {self.part_words}."
            )

    @property
    def service(self) -> int:
        """Threads of a block that serve the protocol instead of moving lines."""
        if self.world == 1:
            return 0
        return 64 if self.line is Line.F16 else 32

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.threads + self.service

    @property
    def targets(self) -> int:
        """Copies a rank writes."""
        return self.world if self.push else 1

    @property
    def elements_per_word(self) -> int:
        """Elements in 4 bytes."""
        return 4 // self.dtype.size

    @property
    def row_words(self) -> int:
        """4-byte words of one row, fused operation only."""
        return up(self.hidden, self.elements_per_word)

    @property
    def row_lines(self) -> int:
        """Lines of one row."""
        return up(self.row_words, int(self.line))

    @property
    def part_words(self) -> int:
        """Words of the row part that one block holds; whole leaves of the sum of squares."""
        grain = 192 if self.line is Line.F12 else 64
        return up(up(self.row_words, self.split), grain) * grain

    @property
    def tile_lines(self) -> int:
        """Lines one block handles in one turn."""
        return self.part_words // int(self.line) if self.hidden else self.threads * self.vec

    @property
    def lines_a_thread(self) -> int:
        """Lines one thread holds in registers."""
        return up(self.tile_lines, self.threads)

    @property
    def partials_a_row(self) -> int:
        """8-byte cells a row needs in device memory when it is split."""
        return self.split * (self.part_words // 64) + self.split if self.hidden and self.split > 1 else 0

    def lines(self, rows: int) -> int:
        """Lines of a message of ``rows`` rows (elements for plain allreduce)."""
        if self.hidden:
            return rows * self.row_lines
        return up(up(rows, self.elements_per_word), int(self.line))

    def tiles(self, rows: int) -> int:
        """Turns of all blocks together."""
        return rows * self.split if self.hidden else up(self.lines(rows), self.tile_lines)

    def identity(self) -> int:
        """32-bit hash of what must be the same on all ranks.

        Threads and grid may differ, and with one shot the split too; with two shots the tile decides who reduces
        which line, so it is part of the identity.
        """
        shared = replace(self, threads=32, split=1, vec=1, lag=0, pause=0, virtual=1, frozen=False)
        shared = replace(shared, aligned=True, quant=Quant.NONE, norm_out=True)
        text = f"{shared}|{self.quant}|{self.tile_lines if self.shots == 2 else 0}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")

    def defines(self, arch: int, *, native_e2m1: bool = False) -> dict[str, int]:
        """Macros for the compiler; ``arch`` is the compute capability as 10 * major + minor."""
        macros = {
            "WORLD": self.world,
            "TARGETS": self.targets,
            "DTYPE": int(self.dtype),
            "LINE_WORDS": int(self.line),
            "SHOTS": self.shots,
            "THREADS": self.threads,
            "LAG": self.lag,
            "PAUSE": self.pause,
            "PATTERN": int(bool(self.hidden)),
            "GEMMA": int(self.gemma),
            "QUANT": int(self.quant),
            "NORM_OUT": int(self.norm_out),
            "ALIGNED": int(self.aligned),
            "PDL": int(arch >= 90),
            "VIRTUAL": self.virtual,
            "NATIVE_E2M1": int(native_e2m1),
            "SWIZZLED": int(self.swizzled),
            "FROZEN": int(self.frozen),
        }
        if self.hidden:
            return {**macros, "HIDDEN": self.hidden, "SPLIT": self.split}
        return {**macros, "VEC": self.vec}


def fitting(variant: Variant) -> Variant:
    """The variant with the fewest parts a row whose lines stay in registers.

    A thread holds its own lines, the residual, the weight, the sum and one batch of peers' lines. With 16 data
    words of each (8 when more than 8 peers' lines are in flight, or two-shot keeps a second copy; fewer where many
    threads share the registers and many peers' lines fill them) no kernel of the tuner spills, which the tests assert
    from the compiler's report.
    """
    if not variant.hidden:
        return variant
    limit = 8 if variant.world > 8 or variant.shots == 2 or variant.line is Line.F12 or not variant.aligned else 16
    if variant.dtype is Dtype.FLOAT32:
        limit = min(limit, 8)
    if variant.world > 3 and variant.threads > 256:
        limit = min(limit, 4)
    if variant.world > 4 and variant.shots == 1 and variant.threads > 128:
        limit = min(limit, 8 if variant.threads <= 256 else 2)
    chosen = variant
    while chosen.lines_a_thread * int(chosen.line) > max(limit, int(chosen.line)) and chosen.split < 64:
        chosen = replace(chosen, split=chosen.split * 2)
    return chosen
