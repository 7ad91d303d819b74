"""The A/A noise floor: how far two starts of the same arm lie apart on this machine, in this run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

__all__ = ["floor"]


def floor(starts: Sequence[Sequence[float]]) -> float | None:
    """The typical factor between two starts of the same arm (1.05 = 5 % apart), or None below two starts.

    ``starts`` holds, for each arm, the primary metric of its starts in the order they ran. Neighbouring
    starts of one arm are compared, so that a slow drift over the run does not count as noise; the factor is
    exp of the root mean square of their log-ratios.
    """
    squares = [
        math.log(later / earlier) ** 2
        for values in starts
        for earlier, later in itertools.pairwise(values)
        if earlier > 0 and later > 0
    ]
    if not squares:
        return None
    return math.exp(math.sqrt(math.fsum(squares) / len(squares)))
