"""One text opened by the edit of its form."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ungate.model import ArchSet, Form, Gate, Sense
from ungate.patch.edits import Place, opening

__all__ = ["opened"]


def opened(
    before: str,
    deciding: str,
    form: Form,
    wanted: Iterable[int] = (120,),
    *,
    passes: Iterable[int] = (),
    names: tuple[str, ...] = (),
    sense: Sense = Sense.ALLOW,
    root: Path = Path("/nonexistent"),
    file: str = "pkg/module.py",
) -> tuple[str, frozenset[int]]:
    """The text after the edit, and the archs it admits. ``deciding`` is the gate's span, its last occurrence."""
    content = before.encode()
    start = content.rindex(deciding.encode())
    gate = Gate(
        "g", "p", "pkg", "1", file, 1, 1, "k", deciding, ArchSet.of(passes), "test", form,
        (start, start + len(deciding.encode())), sense, "", names,
    )  # fmt: skip
    made = opening(Place(gate, content, frozenset(wanted), root))
    out, at = b"", 0
    for each in sorted(made.replacements, key=lambda r: (r.start, r.end)):
        out += content[at : each.start] + each.new
        at = each.end
    return (out + content[at:]).decode(), made.admits
