"""Macros that stand for an architecture: defined under an arch ``#if`` in one file and tested in another.

:func:`gather` takes what one file defines and under which conditions, :func:`settle` keeps the names that depend on
the architecture, directly or through another such name, and :class:`Macros` answers what a name is for one arch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ungate.source.cuda import targets
from ungate.source.cuda.arithmetic import FREE, Free, Value, evaluate
from ungate.source.cuda.directives import Branch, Reading
from ungate.source.cuda.expression import (
    Binary,
    Call,
    Defined,
    Expression,
    Name,
    Opaque,
    Unary,
    identifiers,
    parse,
)

__all__ = [
    "ABSENT",
    "ARCH",
    "TOOLKIT",
    "Clause",
    "Definition",
    "Macros",
    "at_its_time",
    "clauses",
    "condition_text",
    "defined_inside",
    "gather",
    "settle",
    "speaking",
    "stands_for_arch",
]

ARCH = "__CUDA_ARCH__"

TOOLKIT: Mapping[str, int] = {
    "__CUDACC__": 1,
    "__NVCC__": 1,
    "__CUDACC_VER_MAJOR__": 13,
    "__CUDACC_VER_MINOR__": 9,
    "__CUDACC_VER_BUILD__": 999,
    "CUDA_VERSION": 13090,
    "CUDART_VERSION": 13090,
    "__CUDACC_VER__": 130900,
    "__CUDA_API_VERSION": 13090,
    "CUDA_ARCH_CONDITIONAL_SUPPORTED": 1,
}
"""What a toolkit that is new enough says of itself: version tests are taken to hold."""

ABSENT = frozenset(
    {"USE_ROCM", "USE_MUSA", "__HIP__", "__HIPCC__", "__HIP_PLATFORM_AMD__", "__HIP_DEVICE_COMPILE__", "__MUSA_ARCH__"}
)
"""What only a compiler for other vendors' GPUs defines."""

_CAPABILITY = re.compile(r"(?!__CUDA_ARCH)[A-Z][A-Z0-9_]*_ARCH(?:_VALUE)?")
"""A build's own name for the architecture it compiles for, as in ``-DSGL_CUDA_ARCH=900``."""

_HAS_FEATURE = "__CUDA_ARCH_HAS_FEATURE__"
_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_YET = re.compile(r"!\s*defined\s*\(?\s*([A-Za-z_][A-Za-z0-9_]*)\s*\)?")
_LONGEST_VALUE = 400
_DEEPEST = 200  # levels of nesting that are followed; the deepest of a real header is below 20


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition that must be true (``wanted``) or false for a line to be kept."""

    text: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class Definition:
    """One ``#define`` (or ``#undef``) of a name and everything that must hold for it."""

    name: str
    parameters: tuple[str, ...] | None
    value: str
    clauses: tuple[Clause, ...]
    undefines: bool = False


def condition_text(branch: Branch) -> str:
    """The condition of a branch in the words of ``#if``."""
    directive = branch.directive
    if directive.keyword in {"ifdef", "elifdef", "ifndef", "elifndef"}:
        name = _NAMES.match(directive.text)
        test = f"defined({name.group()})" if name else ""
        return f"!{test}" if "n" in directive.keyword.removeprefix("el").removeprefix("if") and test else test
    return directive.text


def clauses(reading: Reading, branch: Branch | None) -> tuple[Clause, ...]:
    """Everything that must hold for the lines of a branch, outermost first."""
    return tuple(clause for _, clause in _clauses(reading, branch))


def _clauses(reading: Reading, branch: Branch | None) -> tuple[tuple[int, Clause], ...]:
    found: list[tuple[int, Clause]] = []
    levels = 0
    while branch is not None and levels < _DEEPEST:
        levels += 1
        if branch.directive.keyword != "else":
            found.append((branch.index, Clause(condition_text(branch), True)))
        for index in reversed(branch.earlier):
            found.append((index, Clause(condition_text(reading.branches[index]), False)))
        branch = reading.branches[branch.parent] if branch.parent >= 0 else None
    return tuple(reversed(found))


def _guard(reading: Reading) -> Clause | None:
    """The include guard: a first group around everything that tests the name its first line defines."""
    if not reading.branches or reading.branches[0].directive.keyword not in {"ifndef", "if"}:
        return None
    first = reading.branches[0]
    names = {define.name for define in reading.defines[:1]}
    text = condition_text(first)
    return Clause(text, True) if any(text == f"!defined({name})" for name in names) and not first.later else None


def gather(reading: Reading) -> tuple[Definition, ...]:
    """What a file defines under a condition, or by an expression over arch macros."""
    guard = _guard(reading)
    inside = defined_inside(reading)
    cache: dict[int, tuple[tuple[int, Clause], ...]] = {}
    found = []
    for define in reading.defines:
        if len(define.value) > _LONGEST_VALUE or (define.parameters is not None and not _plain(define.value)):
            continue
        if define.branch not in cache:
            branch = reading.branches[define.branch] if define.branch >= 0 else None
            cache[define.branch] = tuple(each for each in _clauses(reading, branch) if each[1] != guard)
        needed = tuple(
            Clause(at_its_time(clause.text, inside.get(index, frozenset()) - {define.name}), True)
            if clause.wanted
            else clause
            for index, clause in cache[define.branch]
        )
        if needed or "_ARCH" in define.value:
            found.append(Definition(define.name, define.parameters, define.value, needed, define.undefines))
    return tuple(found)


def defined_inside(reading: Reading) -> dict[int, frozenset[str]]:
    """Which names the lines of each branch define, those of inner branches included."""
    inside: dict[int, set[str]] = {}
    for define in reading.defines:
        index, levels = define.branch, 0
        while index >= 0 and levels < _DEEPEST:
            levels += 1
            inside.setdefault(index, set()).add(define.name)
            index = reading.branches[index].parent
    return {index: frozenset(names) for index, names in inside.items()}


def at_its_time(text: str, names: frozenset[str]) -> str:
    """A condition as it read when it was tested: a name that its own lines go on to define was not defined yet."""
    if "defined" not in text or not names:
        return text

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        return "1" if name in names and not targets.of_compiler(name) else match.group()

    return _NOT_YET.sub(replace, text)


def _plain(value: str) -> bool:
    return not any(character in value for character in '{};"#')


def speaking(expression: Expression) -> frozenset[str]:
    """The names through which an expression can tell one architecture from another.

    That ``__CUDA_ARCH__`` is defined, or not zero, tells the device pass from the host pass and no more.
    """
    match expression:
        case Defined(name=name) | Name(name=name):
            return frozenset() if name == ARCH or stands_for_arch(name) else frozenset({name})
        case Unary(operator="!", of=inner):
            return speaking(inner)
        case Binary(operator="&&" | "||", left=left, right=right):
            return speaking(left) | speaking(right)
        case Binary() | Unary() | Call() | Opaque():
            return identifiers(expression)
        case _:
            return frozenset()


def settle(facts: Iterable[Iterable[Definition]]) -> tuple[dict[str, tuple[Definition, ...]], frozenset[str]]:
    """Over all files: the definitions of every name that depends on the architecture, and the other names defined."""
    known: dict[str, dict[Definition, None]] = {}
    for definitions in facts:
        for definition in definitions:
            known.setdefault(definition.name, {})[definition] = None
    speaks_of: dict[str, set[str]] = {}
    for name, definitions_of in known.items():
        read: set[str] = set()
        for definition in definitions_of:
            for clause in definition.clauses:
                read |= speaking(parse(clause.text))
            if definition.value and len(definition.value) <= _LONGEST_VALUE:
                read |= speaking(parse(definition.value)) - set(definition.parameters or ())
        for other in read - {name}:
            speaks_of.setdefault(other, set()).add(name)
    arch: set[str] = set()
    waiting = [name for name in speaks_of if targets.of_compiler(name) or stands_for_arch(name)]
    while waiting:
        for name in speaks_of.get(waiting.pop(), ()):
            if name not in arch:
                arch.add(name)
                waiting.append(name)
    own = {name for name in arch if not stands_for_arch(name) and not targets.of_compiler(name)} - set(TOOLKIT)
    return {name: tuple(known[name]) for name in sorted(own)}, frozenset(known) - own


def stands_for_arch(name: str) -> bool:
    """Whether a macro by its name holds the architecture that is compiled for, given on the command line."""
    return _CAPABILITY.fullmatch(name) is not None


@dataclass(slots=True)
class _State:
    defined: bool | Free | None = False
    definition: Definition | None = None


@dataclass(slots=True)
class Macros:
    """What each name is for one arch (0: the host pass). ``definitions`` and ``others`` come from :func:`settle`."""

    definitions: Mapping[str, tuple[Definition, ...]] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    _states: dict[tuple[str, int], _State] = field(default_factory=dict, repr=False)
    _running: dict[tuple[str, int], _State] = field(default_factory=dict, repr=False)

    def concerns(self, name: str) -> bool:
        """Whether the name can tell one architecture from another."""
        return targets.of_compiler(name) or name in self.definitions or stands_for_arch(name)

    def known(self, name: str) -> bool:
        """Whether the source says when the name is defined."""
        return name in self.others or name in TOOLKIT or name in ABSENT

    def defined(self, name: str, arch: int) -> bool | Free | None:
        """Whether ``defined(name)`` holds; None where it cannot be decided."""
        if targets.of_compiler(name):
            return arch != 0 and name in targets.macros(targets.most_specific(arch))
        if name in TOOLKIT or stands_for_arch(name):
            return True
        if name in ABSENT:
            return False
        return self._state(name, arch).defined if name in self.definitions else FREE

    def value(self, name: str, arch: int) -> Value:
        """The number a name stands for in a condition; an undefined arch macro is 0, as for the preprocessor."""
        if targets.of_compiler(name):
            return targets.macros(targets.most_specific(arch)).get(name, 0) if arch else 0
        if name in TOOLKIT:
            return TOOLKIT[name]
        if name in ABSENT:
            return 0
        if stands_for_arch(name):
            return arch * 10 if arch else None
        if name not in self.definitions:
            return FREE
        state = self._state(name, arch)
        if state.defined is False:
            return 0
        if state.defined is not True or state.definition is None:
            return None
        return self.number(parse(state.definition.value), arch) if state.definition.value else 1

    def call(self, call: Call, arch: int) -> Value:
        """A function-like macro with its arguments put in."""
        if call.name == _HAS_FEATURE and len(call.arguments) == 1 and isinstance(call.arguments[0], Name):
            return int(self.defined(f"__CUDA_ARCH_FEAT_{call.arguments[0].name}", arch) is True)
        if call.name not in self.definitions:
            return FREE
        state = self._state(call.name, arch)
        definition = state.definition
        if state.defined is not True or definition is None or definition.parameters is None:
            return None
        given: dict[str, Expression] = dict(zip(definition.parameters, call.arguments, strict=False))
        return self.number(_put_in(parse(definition.value), given), arch)

    def number(self, expression: Expression, arch: int) -> Value:
        """The value of an integer expression for one arch."""
        return evaluate(expression, arch, self)

    def _state(self, name: str, arch: int) -> _State:
        key = (name, arch)
        if key in self._states:
            return self._states[key]
        if key in self._running:  # the name tests itself: what has been defined so far
            return self._running[key]
        state = self._running[key] = _State()
        optional: Definition | None = None
        for definition in self.definitions[name]:
            holds = self._holds(definition, arch)
            if isinstance(holds, Free):
                optional = optional or definition
            elif holds is not False:
                if definition.undefines:
                    state.defined = False if holds is True else None
                elif holds is True or state.defined is not True:
                    state.defined, state.definition = holds, definition
        if optional is not None and not any(self._speaks(each) for each in self.definitions[name]):
            state.defined, state.definition = True, optional
        del self._running[key]
        if not any(other != key for other in self._running):
            self._states[key] = state
        return state

    def _speaks(self, definition: Definition) -> bool:
        return any(self.concerns(name) for clause in definition.clauses for name in speaking(parse(clause.text)))

    def _holds(self, definition: Definition, arch: int) -> bool | Free | None:
        """Whether the clauses hold; FREE where there are some and none is about the architecture."""
        unknown, decided = False, not definition.clauses
        for clause in definition.clauses:
            value = self.number(parse(clause.text), arch)
            if isinstance(value, Free):
                continue
            decided = True
            if value is None:
                unknown = True
            elif bool(value) is not clause.wanted:
                return False
        if not decided:
            return FREE
        return None if unknown else True


def _put_in(expression: Expression, given: Mapping[str, Expression]) -> Expression:
    match expression:
        case Name(name=name):
            return given.get(name, expression)
        case Unary(operator=operator, of=inner):
            return Unary(operator, _put_in(inner, given))
        case Binary(operator=operator, left=left, right=right):
            return Binary(operator, _put_in(left, given), _put_in(right, given))
        case Call(name=name, arguments=arguments):
            return Call(name, tuple(_put_in(each, given) for each in arguments))
        case _:
            return expression
