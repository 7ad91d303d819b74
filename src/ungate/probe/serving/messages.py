"""Messages whose sum is known: seeded for each rank, another one for each call, and compared with a sum on the host.

A rank's message is a window of its pool of random numbers, and the expected sum is the same window of the sum of all
pools, taken once, on the host, in float64. The window moves with every call, so that no buffer of an earlier call holds
the right sum.
"""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import dataclass, replace
from typing import Any

import torch

__all__ = ["UNIT_ROUNDOFF", "Pools", "Wrong", "bound", "digest"]

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Half the distance from 1 to the next number, for rounding to nearest: 24, 11 and 8 bits of significand."""

STEP = 61  # elements between the windows of two calls that follow each other
_SPAN = 1 << 16  # elements that a window may move
_TURN = 3067  # elements between two replays: prime to the span below, so that they come back late
_SEED = 20261130
_TINY = 2.0**-1000  # where a sum has to be exact, an error of zero is no share of anything
_ZERO_EVERY, _NEGATIVE_ZERO_EVERY = 97, 89


@dataclass(frozen=True)
class Wrong:
    """What is wrong with the outputs of a replay: how many elements, what they hold, and the first of them."""

    elements: int
    of: int
    nan: int
    infinite: int
    zero: int
    own: int
    stale: int
    got: float
    expected: float
    allowed: float

    def and_more(self, later: Wrong) -> Wrong:
        """With what is wrong in a later call of the replay."""
        counts = ("elements", "nan", "infinite", "zero", "own", "stale")
        return replace(self, **{name: getattr(self, name) + getattr(later, name) for name in counts})

    def sentence(self) -> str:
        """For a reader."""
        kinds = {
            "NaN": self.nan,
            "infinite": self.infinite,
            "zero": self.zero,
            "the rank's own input": self.own,
            "the sum of an earlier call": self.stale,
        }
        held = ", ".join(f"{count} {name}" for name, count in kinds.items() if count)
        first = f"the first is {self.got:.6g} where the sum is {self.expected:.6g} (allowed: {self.allowed:.2g} apart)"
        return f"{self.elements} of {self.of} elements are wrong{f' ({held})' if held else ''}; {first}."


def bound(terms: int, dtype: Any) -> float:
    """What the error of a sum may be, as a share of the sum of magnitudes: gamma(n - 1) = (n - 1) u / (1 - (n - 1) u).

    It holds for every order of adding ``terms`` numbers with each partial sum rounded to ``dtype``, and so for one
    rounding of a sum in float32 too (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2).
    """
    share = (terms - 1) * UNIT_ROUNDOFF[dtype]
    return share / (1 - share)


def digest(tensor: Any) -> str:
    """A hash of the bytes of a contiguous tensor in host memory."""
    size = tensor.numel() * tensor.element_size()
    return hashlib.blake2b(ctypes.string_at(tensor.data_ptr(), size), digest_size=16).hexdigest()


class Pools:
    """The random numbers of all ranks, of which ``own`` is one rank's, in ``dtype`` on ``device``.

    Some elements are zero on one rank and some are -0.0 on all: a kernel may use such a word as its sign that nothing
    has arrived yet.
    """

    def __init__(self, rank: int, world: int, dtype: Any, device: Any, max_elements: int) -> None:
        self.world, self.dtype = world, dtype
        length = max_elements + _SPAN
        self._sum = torch.zeros(length, dtype=torch.float64)
        self._allowed = torch.zeros(length, dtype=torch.float64)
        for source in range(world):
            pool = self._drawn(source, length)
            self._sum += pool.double()
            self._allowed += pool.double().abs()
            if source == rank:
                self._own = pool
        self._allowed *= bound(world, dtype)
        self.own = self._own.to(device)

    def _drawn(self, source: int, length: int) -> Any:
        generator = torch.Generator().manual_seed(_SEED + source)
        pool = torch.randn(length, generator=generator).to(self.dtype)
        pool[source::_ZERO_EVERY] = 0.0
        pool[::_NEGATIVE_ZERO_EVERY] = -0.0
        return pool

    def windows(self, pool: Any, replay: int, calls: int, elements: int) -> Any:
        """``[calls, elements]``: the messages of one replay, as a view of ``pool``."""
        offset = replay * _TURN % (_SPAN - calls * STEP)
        return pool.as_strided((calls, elements), (STEP, 1), offset)

    def compare(self, outputs: Any, replay: int) -> tuple[Wrong | None, float]:
        """Outputs ``[calls, elements]`` of one replay, in host memory, against the sums.

        What is wrong, or None; and the largest error as a share of what is allowed (0 to 1 where nothing is wrong).
        """
        wrong, largest = None, 0.0
        for call, output in enumerate(outputs):  # one at a time, as in float64 all of them may be gigabytes
            got = output.double()
            expected, allowed = self._sums(replay, call, outputs.shape)
            error = (got - expected).abs()
            bad = ~(error <= allowed)  # a NaN is no error that is small enough
            if not bool(bad.any()):
                largest = max(largest, float((error / allowed.clamp_min(_TINY)).max()))
                continue
            values, first = got[bad], int(bad.to(torch.uint8).argmax())
            own = self.windows(self._own, replay, *outputs.shape)[call].double()[bad]
            found = Wrong(
                elements=int(bad.sum()),
                of=outputs.numel(),
                nan=int(values.isnan().sum()),
                infinite=int(values.isinf().sum()),
                zero=int((values == 0).sum()),
                own=int((values == own).sum()),
                stale=self._stale(got, bad, replay, call, outputs.shape),
                got=float(got[first]),
                expected=float(expected[first]),
                allowed=float(allowed[first]),
            )
            wrong = wrong.and_more(found) if wrong else found
        return wrong, largest

    def _sums(self, replay: int, call: int, shape: Any) -> tuple[Any, Any]:
        """The sum of one call, and by how much it may be off."""
        return self.windows(self._sum, replay, *shape)[call], self.windows(self._allowed, replay, *shape)[call]

    def _stale(self, got: Any, bad: Any, replay: int, call: int, shape: Any) -> int:
        """How many of the bad elements are right for the call before, or for the same call of the replay before."""
        old = torch.zeros_like(bad)
        for number, earlier in ((replay, call - 1), (replay - 1, call)):
            if number >= 0 and earlier >= 0:
                expected, allowed = self._sums(number, earlier, shape)
                old |= (got - expected).abs() <= allowed
        return int((old & bad).sum())
