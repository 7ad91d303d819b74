"""One tree for the condition of a gate, whatever language it is written in.

Evaluation is three-valued per architecture: true, false or unknown. A term that is not about the
architecture (a model name, a dtype, a flag) is ``Free``: it is taken not to decide, so it drops out of
a conjunction and out of a disjunction alike, and a condition of free terms alone is no gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ungate.model import KNOWN_ARCHS, ArchSet

__all__ = [
    "All",
    "Always",
    "Condition",
    "Either",
    "Free",
    "Known",
    "Not",
    "Unknown",
    "certain",
    "evaluate",
    "has_free",
    "passing",
    "possible",
    "speaks",
    "where",
]


@dataclass(frozen=True, slots=True)
class Known:
    """A term decided for every known architecture: true for those in ``archs``."""

    archs: frozenset[int]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A term about the architecture that cannot be decided from the source."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Free:
    """A term that is not about the architecture."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Always:
    """A constant."""

    value: bool


@dataclass(frozen=True, slots=True)
class Not:
    """Negation."""

    of: Condition


@dataclass(frozen=True, slots=True)
class All:
    """Conjunction."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Disjunction."""

    of: tuple[Condition, ...]


Condition = Known | Unknown | Free | Always | Not | All | Either


class _Silent:
    """The value of a term that says nothing about the architecture."""


_SILENT = _Silent()
_Value = bool | None | _Silent


def _value(condition: Condition, arch: int, lenient: bool = True) -> _Value:
    """The value for one arch. ``lenient`` is False under a negation: what is free may not let through by failing."""
    match condition:
        case Known(archs=archs):
            return arch in archs
        case Unknown():
            return None
        case Free():
            return _SILENT
        case Always(value=constant):
            return constant
        case Not(of=inner):
            value = _value(inner, arch, not lenient)
            return not value if isinstance(value, bool) else value
        case All(of=terms):
            value = _fold(terms, arch, lenient, decisive=False)
            return _conjoined(terms, arch) if value is False and lenient else value
        case Either(of=terms):
            return _fold(terms, arch, lenient, decisive=True)


def _fold(terms: tuple[Condition, ...], arch: int, lenient: bool, *, decisive: bool) -> _Value:
    """Kleene conjunction (decisive=False) or disjunction (decisive=True) over the terms that are not silent."""
    values = [value for term in terms if not isinstance(value := _value(term, arch, lenient), _Silent)]
    if not values:
        return _SILENT
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def _conjoined(terms: tuple[Condition, ...], arch: int) -> _Value:
    """A conjunction that comes to False, without the alternatives in it that something free can make true.

    In ``major == 7 and (minor < 5 or dtype != half)`` the free term may hold for 7.5; only where nothing else in the
    conjunction tells the archs apart is such an alternative taken for a test of the arch.
    """
    kept = tuple(term for term in terms if not (_is_open(term) and _value(term, arch) is False))
    if len(kept) == len(terms) or not any(_divides(term) for term in kept if not _is_open(term)):
        return False
    return _fold(kept, arch, True, decisive=False)


def _is_open(condition: Condition) -> bool:
    return isinstance(condition, Either) and any(isinstance(term, Free) for term in condition.of)


def _divides(condition: Condition) -> bool:
    """Whether a condition is true for some archs and not for others."""
    answers = {evaluate(condition, arch) for arch in KNOWN_ARCHS}
    return speaks(condition) and len(answers) > 1


def speaks(condition: Condition) -> bool:
    """Whether the condition holds a term about the architecture at all."""
    match condition:
        case Known() | Unknown():
            return True
        case Not(of=inner):
            return speaks(inner)
        case All(of=terms) | Either(of=terms):
            return any(speaks(term) for term in terms)
        case _:
            return False


def possible(condition: Condition, arch: int) -> bool:
    """Whether a condition can hold for an arch, whatever its terms come to that are free or unknown."""
    return _with(condition, arch, True)


def certain(condition: Condition, arch: int) -> bool:
    """Whether a condition holds for an arch, whatever its terms come to that are free or unknown."""
    return _with(condition, arch, False)


def _with(condition: Condition, arch: int, rest: bool) -> bool:
    """What a condition comes to for an arch where whatever is free or unknown helps it (``rest``), or never does."""
    match condition:
        case Known(archs=archs):
            return arch in archs
        case Always(value=constant):
            return constant
        case Not(of=inner):
            return not _with(inner, arch, not rest)
        case All(of=terms):
            return all(_with(term, arch, rest) for term in terms)
        case Either(of=terms):
            return any(_with(term, arch, rest) for term in terms)
        case _:
            return rest


def has_free(condition: Condition) -> bool:
    """Whether something that is not about the architecture has its say."""
    match condition:
        case Free():
            return True
        case Not(of=inner):
            return has_free(inner)
        case All(of=terms) | Either(of=terms):
            return any(has_free(term) for term in terms)
        case _:
            return False


def evaluate(condition: Condition, arch: int) -> bool | None:
    """True, False or None (unknown) for one compute capability; a wholly free condition is True."""
    value = _value(condition, arch)
    return True if isinstance(value, _Silent) else value


def passing(condition: Condition, archs: Iterable[int] = KNOWN_ARCHS) -> ArchSet:
    """The set of compute capabilities for which the condition holds."""
    yes, unknown = set(), set()
    for arch in archs:
        match evaluate(condition, arch):
            case True:
                yes.add(arch)
            case None:
                unknown.add(arch)
            case _:
                pass
    return ArchSet(frozenset(yes), frozenset(unknown))


def where(predicate: Callable[[int], bool], text: str = "") -> Known:
    """The known architectures for which ``predicate(compute capability)`` is true."""
    return Known(frozenset(arch for arch in KNOWN_ARCHS if predicate(arch)), text)
