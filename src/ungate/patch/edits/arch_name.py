"""One string that names the architecture a kernel is compiled for.

    cute.GPUArch("sm_120a")
    cute.GPUArch("sm_121a" if torch.cuda.get_device_capability() == (12, 1) else "sm_120a")

A compiler takes one target, so the string cannot become a longer list: on the wanted archs another string is chosen,
spelled like the one that stands there. On every other device the value is what it was.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ungate.model import Form, Sense
from ungate.patch.edits import Opening, Place, Replacement, Unopenable, opens
from ungate.patch.edits._imports import Module
from ungate.patch.edits._names import named, renamed
from ungate.patch.edits._python_admission import by_torch

__all__ = ["open_name"]

_STRING = re.compile(r"[rRuU]?(\"[^\"\n]*\"|'[^'\n]*')")


@opens(Form.ARCH_NAME)
def open_name(place: Place) -> Opening:
    """Choose another target on the wanted archs; the span is the string, or a choice between such strings."""
    if place.gate.sense is Sense.REFUSE:
        raise Unopenable("its text names what is refused")
    start, end = place.gate.span
    strings = [m for m in _STRING.finditer(place.text.decode("utf-8", "surrogateescape")) if named(m[0])]
    if not strings:
        raise Unopenable("its text holds no string that names one architecture")
    # the last one is what a choice falls back to
    last = strings[-1][0]
    if len(named(last)) != 1:
        raise Unopenable("its string names several architectures, and a compilation has one target")
    if place.content[:start].rstrip().endswith((b'"', b"'")) or place.content[end:].lstrip()[:1] in (b'"', b"'"):
        raise Unopenable("its string is a part of a longer one")
    module = Module.read(place.content)
    imports: dict[Replacement, None] = {}
    choice = b""
    for arch in sorted(place.missing):
        others = place.gate.passes.yes | place.missing - {arch}
        alone = replace(place, gate=replace(place.gate, passes=replace(place.gate.passes, yes=others)))
        found = by_torch(alone, module)
        imports.update(dict.fromkeys(found.imports))
        choice += renamed(last, arch).encode() + b" if " + _bare(found.text) + b" else "
    if _argument(place.content, start, end):
        return Opening((*imports, Replacement(start, start, choice)), place.missing)
    around = (Replacement(start, start, b"(" + choice), Replacement(end, end, b")"))
    return Opening((*imports, *around), place.missing)


def _bare(text: bytes) -> bytes:
    """Without the parentheses around the whole, which a condition between ``if`` and ``else`` does not need."""
    return text[1:-1] if text[:1] == b"(" and text[-1:] == b")" else text


def _argument(content: bytes, start: int, end: int) -> bool:
    """Whether the span is a whole argument, element or assigned value: a choice needs no parentheses there."""
    before, after = content[:start].rstrip(), content[end:]
    if before.endswith((b"(", b",", b"[", b"{")):
        return after.lstrip()[:1] in (b")", b",", b"]", b"}")
    if not before.endswith(b"=") or before.endswith((b"==", b"!=", b"<=", b">=")):
        return False
    return after.lstrip(b" \t")[:1] in (b")", b",", b"\n", b"\r", b"#", b"")
