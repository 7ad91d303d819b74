"""Prints 8 MB, with no newline at the end."""

from __future__ import annotations

import sys
from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        if not self.calls:
            sys.stdout.write(("spam " * 200 + "\\n") * 8000 + "end")
            sys.stdout.flush()
        super().__call__(source, out)


CANDIDATE = faulty("prints", _Fault)
