"""Opening a C++ condition: which part of it decides about the architecture, and where the addition goes.

A conjunct that is not about the architecture (a build option, a toolkit version) keeps its say: the addition stands
beside the terms that hold the target back, not beside the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ungate.patch.edits import Replacement, Unopenable
from ungate.patch.edits._cexpr import Node, leaves, pure

__all__ = ["Logic"]


@dataclass(frozen=True, slots=True)
class Logic:
    """``admission`` is the C++ text that is true for exactly the wanted archs, in parentheses where it needs them."""

    content: bytes
    admission: bytes
    about_arch: Callable[[Node], bool]
    why: str = ""

    def open(self, node: Node) -> tuple[Replacement, ...]:
        """Make the node true for the wanted archs, all other terms taken to hold."""
        self._check(node)
        return tuple(self._open(node))

    def shut(self, node: Node) -> tuple[Replacement, ...]:
        """Make the node false for the wanted archs."""
        self._check(node)
        return tuple(self._shut(node))

    def _check(self, node: Node) -> None:
        if not any(self.about_arch(leaf) for leaf in leaves(node)):
            raise Unopenable("no term of its condition names an architecture")

    def _touches(self, node: Node) -> bool:
        return any(self.about_arch(leaf) for leaf in leaves(node))

    def _insert(self, at: int, new: bytes) -> Replacement:
        return Replacement(at, at, new, self.why)

    def _wrap(self, start: int, end: int, sign: bytes, *, closed: bool) -> Iterator[Replacement]:
        """``X`` becomes ``(X) sign admission``; ``closed`` says that X has parentheses of its own or needs none."""
        if closed:
            yield self._insert(end, b" " + sign + self.admission)
        else:
            yield self._insert(start, b"(")
            yield self._insert(end, b") " + sign + self.admission)

    def _runs(self, node: Node) -> Iterator[tuple[Node, ...]]:
        """Neighbouring children that are all purely about the architecture; other children alone."""
        run: list[Node] = []
        for child in node.children:
            if pure(child, self.about_arch):
                run.append(child)
                continue
            if run:
                yield tuple(run)
                run = []
            yield (child,)
        if run:
            yield tuple(run)

    def _open(self, node: Node) -> Iterator[Replacement]:
        if pure(node, self.about_arch):
            yield from self._widen(node)
        elif node.kind == "not":
            yield from self._shut(node.children[0])
        elif node.kind == "and":
            for run in self._runs(node):
                if pure(run[0], self.about_arch):
                    # inside a conjunction the addition needs parentheses around the whole
                    yield self._insert(run[0].start, b"(" if len(run) == 1 else b"((")
                    tail = b" || " if len(run) == 1 else b") || "
                    yield self._insert(run[-1].end, tail + self.admission + b")")
                elif self._touches(run[0]):
                    yield from self._open(run[0])
        else:
            settled = [child for child in node.children if pure(child, self.about_arch)]
            if settled:
                yield self._insert(settled[-1].end, b" || " + self.admission)
            else:
                yield from self._open(next(child for child in node.children if self._touches(child)))

    def _widen(self, node: Node) -> Iterator[Replacement]:
        if node.kind == "or" and node.bare:
            yield self._insert(node.end, b" || " + self.admission)
        else:
            yield from self._wrap(node.start, node.end, b"|| ", closed=not node.bare or node.kind == "term")

    def _shut(self, node: Node) -> Iterator[Replacement]:
        if pure(node, self.about_arch):
            closed = not node.bare or node.kind in ("term", "and", "not")
            yield from self._wrap(node.start, node.end, b"&& !", closed=closed)
        elif node.kind == "not":
            yield from self._open(node.children[0])
        elif node.kind == "or":
            for child in node.children:
                if self._touches(child):
                    yield from self._shut(child)
        else:
            settled = [child for child in node.children if pure(child, self.about_arch)]
            if settled:
                yield self._insert(settled[-1].end, b" && !" + self.admission)
            else:
                yield from self._shut(next(child for child in node.children if self._touches(child)))
