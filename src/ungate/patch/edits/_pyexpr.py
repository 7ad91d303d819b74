"""One Python expression, the byte position of its nodes, and which of its terms are about the architecture."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ungate.patch.edits import Place, Unopenable

__all__ = ["Expression"]

_ARCH = re.compile(
    r"(?i)sm_?\d{2,3}|capab|compute_cap|device_sm|blackwell|hopper|ampere|\bada\b"
    r"|\bmajor\b|_major\b|\bminor\b|_minor\b|\bcc\b|\bsm\b|_sm\b|\barch\b|\bsm_version\b"
)
_NOT_ARCH = re.compile(
    r"(?i)(?<!sm_)(?<!arch_)version|\bis_cuda\b|\bis_hip\b|\bis_rocm\b|is_available|hasattr|importlib"
)


@dataclass(frozen=True, slots=True)
class Expression:
    """``start`` is where the text begins in the file; ``lines`` are the offsets of its lines in the parsed text."""

    content: bytes
    start: int
    root: ast.expr
    lines: tuple[int, ...]
    names: frozenset[str]

    @classmethod
    def read(cls, place: Place) -> Expression:
        """Parse the gate's span; Unopenable where it is no expression."""
        start, end = _whole(place.content, *place.gate.span)
        wrapped = b"(" + place.content[start:end] + b"\n)"
        try:
            root = ast.parse(wrapped, mode="eval").body
        except (SyntaxError, ValueError):
            raise Unopenable("the text of its span is no Python expression") from None
        lines = [0]
        lines += [i + 1 for i, c in enumerate(wrapped) if c == 0x0A]
        return cls(place.content, start - 1, root, tuple(lines), frozenset(place.gate.names))

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Byte range of the node in the file, without parentheses around it."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self.start + self.lines[node.lineno - 1] + node.col_offset
        return start, self.start + self.lines[node.end_lineno - 1] + node.end_col_offset

    def outer(self, node: ast.expr, parent: ast.expr) -> tuple[int, int]:
        """The node's byte range with the parentheses that stand around it inside its parent."""
        low, high = self.span(parent)
        start, end = self.span(node)
        while True:
            before = self.content[low:start].rstrip()
            after = self.content[end:high]
            closing = after.lstrip()
            if not (before.endswith(b"(") and closing.startswith(b")")):
                return start, end
            start, end = low + len(before) - 1, end + len(after) - len(closing) + 1

    def text(self, node: ast.expr) -> bytes:
        start, end = self.span(node)
        return self.content[start:end]

    def about_arch(self, term: ast.expr) -> bool:
        """Whether a term (no and, or, not) tests the architecture: by the gate's names, else by how it is spelled."""
        if isinstance(term, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in term.ops):
            return False
        text = self.text(term).decode("utf-8", "replace")
        words = {node.id for node in ast.walk(term) if isinstance(node, ast.Name)}
        words |= {node.attr for node in ast.walk(term) if isinstance(node, ast.Attribute)}
        if words & self.names and not _NOT_ARCH.search(text):
            return True
        if self.names & {text} or any("." in name and name in text for name in self.names):
            return True
        return bool(_ARCH.search(text)) and not _NOT_ARCH.search(text)

    def terms(self, node: ast.expr) -> list[ast.expr]:
        """The terms below and, or and not, in order."""
        match node:
            case ast.BoolOp(values=values):
                return [term for value in values for term in self.terms(value)]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.terms(operand)
            case ast.Call(func=ast.Name(id="bool"), args=[inner], keywords=[]):
                return self.terms(inner)
            case _:
                return [node]

    def touches(self, node: ast.expr) -> bool:
        return any(self.about_arch(term) for term in self.terms(node))

    def pure(self, node: ast.expr) -> bool:
        return all(self.about_arch(term) for term in self.terms(node))


def _whole(content: bytes, start: int, end: int) -> tuple[int, int]:
    """The span with the parentheses that its text leaves open: the position of ``(a) or b`` begins at ``a``."""
    depth = lowest = 0
    for c in content[start:end]:
        depth += (c in b"([{") - (c in b")]}")
        lowest = min(lowest, depth)
    for _ in range(-lowest):
        before = content[:start].rstrip()
        if not before.endswith(b"("):
            break
        start = len(before) - 1
    for _ in range(depth - lowest):
        after = content[end:]
        if not after.lstrip().startswith(b")"):
            break
        end += len(after) - len(after.lstrip()) + 1
    return start, end
