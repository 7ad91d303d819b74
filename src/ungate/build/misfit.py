"""Whether a compiled module holds code for the GPU whose folder it lies in.

A package that names an architecture of its own among the flags of a module compiles for that one on every GPU
(flashinfer-ai/flashinfer#5355: a module in the folder of another GPU, and sm_89 code alone in it).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ungate.host.images import images, runs

__all__ = ["other_architecture"]


def other_architecture(outputs: Sequence[Path], arch: str) -> str:
    """Why none of these libraries can run on any GPU of ``arch`` (``sm_90a sm_120f``), empty where one can.

    Empty too where a library holds no GPU code or cannot be read: then nothing is known.
    """
    numbers = [int(number) for number in re.findall(r"\bsm_(\d+)", arch)]
    if not numbers:
        return ""
    for output in outputs:
        held = images(output) if output.suffix == ".so" else None
        if held and not any(runs(image, number) for image in held for number in numbers):
            names = " ".join(str(image) for image in sorted(held))
            return f"{output.name} holds {names} and nothing that {' or '.join(arch.split())} can run"
    return ""
