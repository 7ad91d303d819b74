"""Modules that are compiled when first used: the function that names their sources, and the sources."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from ungate.trace.corpus import Corpus
from ungate.trace.graph import Graph
from ungate.trace.module import Scope, Use, dotted
from ungate.trace.names import Names, Thing

__all__ = ["Build", "Descent", "Found", "Source", "Step", "build_of", "builds", "descend", "prebuilt", "search"]

_SOURCE = re.compile(rb"""[\w}]\.(?:cu|cuh|cpp|cc|cxx|jinja)["']""")
_COMPILES = re.compile(rb"\b\w*(?:jit|load|compile|build)\w*\s*\(", re.IGNORECASE)
_PATHS = frozenset({"Path", "str", "join", "fspath"})
_AHEAD = frozenset({"sgl_kernel", "deep_gemm", "flash_attn", "flash_attn_3", "flash_mla", "vllm_flash_attn"})
_AHEAD |= {"flashinfer", "flash_attn_interface", "deep_ep", "aiter", "tilelang", "b12x", "tokenspeed_mla", "xformers"}
_TORCH_ITSELF = frozenset({"aten", "prims", "prim", "higher_order", "c10d", "_c10d_functional", "symm_mem", "inductor"})
_HANDS_OUT = ("_cls", "_class")  # how functions are named that return a class for others to make an object of
_MOST = 300  # functions looked at below one entry
_FAR = 3  # steps from the entry to where an object is made; what is made further away says little about the entry


@dataclass(frozen=True, slots=True)
class Source:
    """A source named by a build. ``file`` is a native file of the corpus, or the text as written where no one
    file answers to it (generated or computed; ``verified`` is None then)."""

    file: str
    line: int
    verified: bool | None


@dataclass(frozen=True, slots=True)
class Build:
    """A function that compiles a module: ``name`` is the module's name where it is written out."""

    scope: Scope
    line: int
    name: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A function and the reference in it that leads on; ``verified`` is None where the function is a method of
    an object that was made on the way, and who calls it is decided while running."""

    scope: Scope
    use: Use
    verified: bool | None = True


@dataclass(frozen=True, slots=True)
class Descent:
    """A way down from an entry to a build. ``export`` is what is called on the loaded module, empty where the
    code does not show it."""

    steps: tuple[Step, ...]
    build: Scope
    export: str


@dataclass(frozen=True, slots=True)
class Found:
    """What is compiled below an entry: ``builds`` when it is used; ``ahead`` are the ways to calls of what was
    compiled ahead of time, the last step being the call."""

    builds: tuple[Descent, ...]
    ahead: tuple[tuple[Step, ...], ...]


_PREBUILT = re.compile(rb"\b(?:get_cubin|get_artifact|ArtifactPath\.\w+|\w*cubin\w*)\b")


def prebuilt(corpus: Corpus, scope: Scope) -> str:
    """What a building function downloads ready-made instead of compiling, empty where it does not."""
    lines = corpus.text(scope.module.file).split(b"\n")[scope.first - 1 : scope.last]
    found = _PREBUILT.findall(b"\n".join(lines))
    named = next((word for word in found if word.startswith(b"ArtifactPath.")), found[0] if found else b"")
    return named.decode()


def builds(corpus: Corpus, scope: Scope) -> bool:
    """Whether a function names sources and compiles them: told from its text, without evaluation."""
    if scope.kind != "function":
        return False
    lines = corpus.text(scope.module.file).split(b"\n")[scope.body - 1 : scope.last]
    text = b"\n".join(lines[1:])
    return bool(_SOURCE.search(text) and _COMPILES.search(text))


def build_of(names: Names, scope: Scope) -> Build:
    """The sources a building function names, each resolved to a file where exactly one answers."""
    sources: dict[str, Source] = {}
    for parts, line in _paths(names, scope.node, scope):
        found: tuple[str, ...] = ()
        for start in range(len(parts)):
            found = names.corpus.natives("/".join(parts[start:]))
            if found:
                break
        own = [file for file in found if names.corpus.owner[file] is names.corpus.owner[scope.module.file]]
        if len(own) == 1:
            sources.setdefault(own[0], Source(own[0], line, True))
        else:
            text = "/".join(parts)
            sources.setdefault(text, Source(text, line, None))
    line, name = scope.body, ""
    for call in (node for node in ast.walk(scope.node) if isinstance(node, ast.Call)):
        last = dotted(call.func).rpartition(".")[2]
        if re.search("jit|load|compile|build", last, re.IGNORECASE):
            line = call.lineno
            name = next((a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)), name)
    return Build(scope, line, name, tuple(sources.values()))


def _paths(names: Names, node: ast.AST, scope: Scope) -> Iterator[tuple[list[str], int]]:
    """Each path expression below a node that ends in a source suffix, as its known trailing parts."""
    pending = [node]
    while pending:
        at = pending.pop(0)
        if isinstance(at, ast.BinOp | ast.Constant | ast.Call):
            parts = _parts(names, at, scope)
            if parts and re.search(r"[\w}]\.(?:cu|cuh|cpp|cc|cxx|jinja)$", parts[-1]):
                yield parts, at.lineno
                continue
        pending[:0] = list(ast.iter_child_nodes(at))


def _parts(names: Names, node: ast.expr, scope: Scope, depth: int = 0) -> list[str]:
    """The trailing path components that are written out; what stands before an unknown part is dropped."""
    if depth > 8:
        return []
    match node:
        case ast.Constant(value=str(text)):
            return [part for part in text.split("/") if part and part != "."]
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            tail = _parts(names, right, scope, depth + 1)
            return [*_parts(names, left, scope, depth + 1), *tail] if tail else []
        case ast.Call(func=func, args=arguments) if dotted(func).rpartition(".")[2] in (
            "Path",
            "str",
            "join",
            "fspath",
        ):
            parts: list[str] = []
            for argument in arguments:
                found = _parts(names, argument, scope, depth + 1)
                parts = [*parts, *found] if found else []
            return parts
        case ast.Name() | ast.Attribute():
            thing = names.text(dotted(node), scope)
            if thing is not None and thing.kind == "value":
                module = names.module(thing.module)
                values = module.top.values.get(thing.name, []) if module else []
                if len(values) == 1 and module is not None:
                    return _parts(names, values[0], module.top, depth + 1)
            return []
        case _:
            return []


def descend(graph: Graph, entry: Thing) -> tuple[Descent, ...]:
    """Every build below an entry with the shortest way to it, nearest first; one for each export called."""
    return search(graph, entry).builds


def search(graph: Graph, entry: Thing) -> Found:
    """What is compiled below an entry, when it is used and ahead of time, with the shortest way to each.

    Methods of objects that are made on the way are looked at after everything that is called by name, and only where
    that leads to no build: those of the nearest objects first, and none of objects that are made far away.
    """
    found: dict[tuple[str, str, str], Descent] = {}
    ahead: dict[str, tuple[Step, ...]] = {}
    pending: deque[tuple[Thing, tuple[Step, ...], bool | None]] = deque([(entry, (), True)])
    objects: list[tuple[Thing, tuple[Step, ...], bool | None]] = []
    seen: set[Thing] = set()
    by_name = 0  # calls into compiled libraries that were found before any object was looked into
    while (pending or (objects and not found and len(ahead) == by_name)) and len(seen) < _MOST:
        if not pending:
            by_name = by_name or len(ahead)
            nearest = min(len(steps) for _, steps, _ in objects)
            pending.extend(each for each in objects if len(each[1]) == nearest)
            objects = [each for each in objects if len(each[1]) > nearest]
        thing, steps, verified = pending.popleft()
        scope = graph.scope(thing)
        if scope is None or thing in seen:
            continue
        seen.add(thing)
        if scope.kind == "class":
            for name, method in scope.children.items():
                if method.kind == "function":
                    inner = Thing("function", thing.module, method.name)
                    if name == "__init__":
                        pending.append((inner, steps, True))
                    elif len(steps) <= _FAR:
                        objects.append((inner, steps, None))
            continue
        for use in ahead_calls(graph, scope):
            ahead.setdefault(use.text, (*steps, Step(scope, use, verified)))
        for use, target in graph.callees(scope):
            step = (*steps, Step(scope, use, verified))
            if target.kind == "native":
                build = graph.scope(target)
                if build is not None and (use.call or not target.trail):
                    key = (target.module, target.name, ".".join(target.trail))
                    found.setdefault(key, Descent(step, build, target.trail[0] if target.trail else ""))
            elif target.kind == "class":
                if use.call:
                    pending.append((target, step, True))
                elif scope.name.endswith(_HANDS_OUT):
                    pending.append((target, step, None))
            elif target.kind != "instance":
                pending.append((Thing("function", target.module, target.name), step, True))
    shown = {(d.build.module.name, d.build.name) for d in found.values() if d.export}
    builds = tuple(d for d in found.values() if d.export or (d.build.module.name, d.build.name) not in shown)
    own = graph.scope(entry)
    if not builds and own is not None and graph.names.building(entry):
        builds = (Descent((), own, ""),)  # nothing in the packages loads it: it is for others to call
    return Found(builds, tuple(ahead.values()))


def ahead_calls(graph: Graph, scope: Scope) -> Iterator[Use]:
    """The calls, in a function itself, of what is compiled ahead of time or is not among the packages:
    ``torch.ops.sgl_kernel.f``, or a function imported from such a package."""
    for use in scope.uses:
        if not use.call:
            continue
        if use.text.startswith("torch.ops."):
            space = use.text.split(".")[2]
            if space not in _TORCH_ITSELF and "?" not in use.text and graph.operators.target(use.text) is None:
                yield use
        elif "?" not in use.text:
            thing = graph.names.use(use, scope)
            if thing is not None and thing.kind == "outside" and thing.module.partition(".")[0] in _AHEAD:
                yield use
