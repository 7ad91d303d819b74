"""A preprocessor condition as a condition tree: which architectures keep the lines in the device pass.

Each arch is judged with the macros of its most specific target (``sm_90a`` for 90), so code for ``sm_90a`` counts
for 90. The host pass, where ``__CUDA_ARCH__`` is not defined, is answered apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import All, Always, Condition, Either, Known, Not, Unknown, passing, speaks
from ungate.source.condition import Free as FreeTerm
from ungate.source.cuda.arithmetic import Free, evaluate
from ungate.source.cuda.expression import Binary, Defined, Expression, Name, Number, Unary, identifiers, parse
from ungate.source.cuda.macros import ARCH, Macros, speaking, stands_for_arch

__all__ = ["SWITCH", "Conditions", "Judged", "names_an_arch"]

SWITCH = r"SM_?(?:75|8[0-9]|90|1[0-2][0-9])[AF]?|AMPERE|HOPPER|BLACKWELL"
_SWITCH = re.compile(
    rf"(?:ENABLE|COMPILE|USE|BUILD|ARCH|GENERATED|HAS|ONLY|EXCLUDE|WITH)\w*_(?:{SWITCH})(?:_|$)|_SM_?\d+[AF]?$"
)


def names_an_arch(name: str) -> bool:
    """Whether a macro is by its name a build's switch for one architecture, as ``FLASHINFER_MAMBA_ENABLE_SM90``."""
    return _SWITCH.search(name) is not None and not name.endswith("_SUPPORTED")  # that one asks for a toolkit


def _all_switches(expression: Expression) -> bool:
    """Whether nothing but the presence or truth of macros is asked."""
    match expression:
        case Defined() | Name():
            return True
        case Unary(operator="!", of=inner):
            return _all_switches(inner)
        case Binary(operator="&&" | "||", left=left, right=right):
            return _all_switches(left) and _all_switches(right)
        case _:
            return False


_PROFILE = (50, 60, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121, 200)
"""Architectures past and to come beside the known ones, to see on which side a bound lies."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A condition in the device pass (``tree``), in the host pass (None: not decided there), and the names it reads."""

    tree: Condition
    host: bool | None
    names: tuple[str, ...]
    until: int | None = None  # the first arch that fails, where all older ones and no newer one hold

    @property
    def gate(self) -> bool:
        """Whether it tells architectures apart at all."""
        return speaks(self.tree)


@dataclass(slots=True)
class Conditions:
    """Judges conditions by text, each once."""

    macros: Macros = field(default_factory=Macros)
    _judged: dict[str, Judged] = field(default_factory=dict, repr=False)

    def judge(self, text: str) -> Judged:
        """The condition after ``#if``, already free of comments and continuations."""
        found = self._judged.get(text)
        if found is None:
            found = self._judged[text] = self._judge(text)
        return found

    def _judge(self, text: str) -> Judged:
        expression = parse(text)
        told = speaking(expression)
        if not any(self.macros.concerns(name) for name in told):
            switches = tuple(sorted(name for name in told if names_an_arch(name) and not self.macros.known(name)))
            if switches and _all_switches(expression):
                return Judged(Unknown(text), None, switches)
            return Judged(self._tree(expression, text), self._host(expression), ())
        names = tuple(sorted(name for name in identifiers(expression) if self.macros.concerns(name)))
        tree = _folded(self._tree(expression, text), text)
        return Judged(tree, self._host(expression), names, self._until(expression))

    def _until(self, expression: Expression) -> int | None:
        values = [evaluate(expression, arch, self.macros) for arch in _PROFILE]
        truth = [bool(value) if isinstance(value, int) else None for value in values]
        if truth[0] is not True or None in truth or False not in truth:
            return None
        first = truth.index(False)
        return None if any(truth[first:]) else _PROFILE[first]

    def _host(self, expression: Expression) -> bool | None:
        value = evaluate(expression, 0, self.macros)
        return bool(value) if isinstance(value, int) else None

    def _tree(self, expression: Expression, text: str) -> Condition:
        match expression:
            case Binary(operator="&&", left=left, right=right):
                return All((self._tree(left, text), self._tree(right, text)))
            case Binary(operator="||", left=left, right=right):
                return Either((self._tree(left, text), self._tree(right, text)))
            case Unary(operator="!", of=inner):
                return Not(self._tree(inner, text))
            case Number(value=value):
                return Always(bool(value))
            case Defined(name=name) | Name(name=name) if name == ARCH or stands_for_arch(name):
                return Always(True)
            case _:
                return self._leaf(expression, text)

    def _leaf(self, expression: Expression, text: str) -> Condition:
        read = identifiers(expression)
        about = any(self.macros.concerns(name) for name in read)
        values = {arch: evaluate(expression, arch, self.macros) for arch in KNOWN_ARCHS}
        if not about:
            value = values[KNOWN_ARCHS[0]]
            return Always(bool(value)) if isinstance(value, int) else FreeTerm(text)
        yes = frozenset(arch for arch, value in values.items() if isinstance(value, int) and value)
        unknown = frozenset(arch for arch, value in values.items() if value is None or isinstance(value, Free))
        if not unknown:
            return Known(yes, text)
        if unknown == frozenset(KNOWN_ARCHS):
            return Unknown(text)
        return Either((Known(yes, text), All((Known(unknown, text), Unknown(text)))))


def _folded(tree: Condition, text: str) -> Condition:
    """The same condition as one term: what is decided for each arch need not be decided again for each gate."""
    if not speaks(tree):
        return tree
    passes = passing(tree)
    if passes.decided:
        return Known(passes.yes, text)
    if passes.unknown == frozenset(KNOWN_ARCHS):
        return Unknown(text)
    return Either((Known(passes.yes, text), All((Known(passes.unknown, text), Unknown(text)))))
