"""What a function requires of the device before it runs, where a decorator keeps that in a table by backend.

::

    @backend_requirement({"cudnn": _cudnn_requirement, "trtllm": _trtllm_requirement})
    def mm_fp4(a, b, backend): ...

    @supported_compute_capability([100, 103])
    def _trtllm_requirement(a, b, backend): ...

    BackendSupportedError: mm_fp4 does not support backend 'trtllm' with capability 120

or one for all backends (``common_check=_requirement``), or where a class that an enumeration names by its path, or
that is chosen where a member is asked for, answers for itself, in methods named after what they answer:

::

    class AttentionBackendEnum(Enum):
        FLASHINFER_MLA = "engine.backends.flashinfer_mla.FlashInferMLABackend"

    class FlashInferMLABackend:
        def supports_compute_capability(cls, capability): return capability.major == 10

    ValueError: Selected backend FLASHINFER_MLA is not valid. Reason: ['compute capability not supported']
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from ungate.model import Hop, Reached
from ungate.trace.chain import Trace
from ungate.trace.gates import marked
from ungate.trace.module import Scope, dotted
from ungate.trace.names import Thing
from ungate.trace.switches import tokens
from ungate.trace.values import asking_member, by_path, enumerations, under

__all__ = ["answered", "answers", "required"]

_QUESTION = re.compile(r"_?(supports?|is|can|has|check|validate)_")
_DEVICE = re.compile(r"capabilit|backend|architecture|\bsm_?\d|\bdevice|\bGPU", re.IGNORECASE)
_MOST_NAMES = 12  # names of a message that are looked for in enumerations


def required(trace: Trace, thing: Thing, keys: Iterable[str], text: str) -> tuple[Hop, ...]:
    """A hop for each requirement that the decorators of a function keep: those under one of these texts, else, where
    the message speaks of the device or of backends, all of them that an architecture decides about."""
    scope = trace.graph.scope(thing)
    if scope is None:
        return ()
    kept = list(_kept(scope))
    wanted = set(keys)
    named = [pair for pair in kept if pair[0] and pair[0] in wanted]
    if not named and not _DEVICE.search(text):
        return ()
    hops: list[Hop] = []
    for key, value in named or kept:
        found = trace.graph.names.text(dotted(value), scope.parent or scope)
        asked = trace.graph.scope(found) if found is not None and found.kind == "function" else None
        if asked is None:
            hops.extend([Hop("call", scope.module.file, value.lineno, dotted(value), None)] if named else [])
            continue
        gates = marked(trace.gates.between(asked.module.file, asked.first, asked.last), Reached.YES)
        if gates or named:
            case = f" for '{key}'" if key else ""
            note = f"what {scope.name} requires{case} ({scope.module.file}:{value.lineno})"
            hops.append(Hop("call", asked.module.file, asked.body, asked.name, True, gates, note))
    if not named:
        own = marked(trace.gates.between(scope.module.file, scope.first, scope.body), Reached.YES)
        hops.extend([Hop("call", scope.module.file, scope.body, scope.name, True, own, "requires it")] if own else [])
    return tuple(hops)


def _kept(scope: Scope) -> Iterator[tuple[str, ast.expr]]:
    """(the text it is kept under or nothing, the requirement) for what the decorators of a function are given."""
    for decorator in getattr(scope.node, "decorator_list", ()):
        given = (
            [*decorator.args, *(each.value for each in decorator.keywords)] if isinstance(decorator, ast.Call) else []
        )
        for value in given:
            if isinstance(value, ast.Dict):
                for key, held in zip(value.keys, value.values, strict=True):
                    if isinstance(key, ast.Constant):
                        yield str(key.value), held
            elif isinstance(value, ast.Name | ast.Attribute):
                yield "", value


def answered(trace: Trace, text: str) -> tuple[Hop, ...]:
    """What the classes that names in the message stand for answer to what the message complains of."""
    hops: dict[tuple[str, int], Hop] = {}
    said = tokens(text.lower())
    for name in list(dict.fromkeys(re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b", text)))[:_MOST_NAMES]:
        for thing in (*(thing for thing, _ in by_path(trace.graph, name)), *_chosen(trace, name, text)):
            for hop in answers(trace, thing, name):
                if tokens(hop.symbol.rpartition(".")[2]) & said:
                    hops.setdefault((hop.file, hop.line), hop)
    return tuple(hops.values())


def _chosen(trace: Trace, name: str, text: str) -> Iterator[Thing]:
    """The classes that are chosen where a member of an enumeration of that name is asked for: ``if backend ==
    Backend.FAST: return FastExperts``. Only of an enumeration that the message speaks of by its name, where one is."""
    found = list(enumerations(trace.graph, name))
    said = _squeezed(text)
    for owner in [owner for owner in found if _squeezed(owner.name) in said] or found:
        for asked in asking_member(trace.graph, owner, name):
            inside = under(asked)
            for use in asked.scope.uses:
                thing = trace.graph.meaning(use, asked.scope) if not use.stored and inside(use.line) else None
                if thing is not None and thing.kind == "class" and not thing.trail:
                    yield thing


def _squeezed(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def answers(trace: Trace, thing: Thing, name: str) -> tuple[Hop, ...]:
    """A hop for each method of a class that holds gates and whose name is a question: ``supports_compute_capability``.
    ``name`` is what the class is known by."""
    owner = trace.graph.scope(thing)
    hops = []
    for scope in owner.children.values() if owner is not None and owner.kind == "class" else ():
        gates = marked(trace.gates.between(scope.module.file, scope.first, scope.last), Reached.YES)
        if scope.kind == "function" and gates and _QUESTION.match(scope.name.rpartition(".")[2]):
            note = f"what {name} answers for itself"
            hops.append(Hop("call", scope.module.file, scope.body, scope.name, True, gates, note))
    return tuple(hops)
