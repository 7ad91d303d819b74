"""Which exports of a compiled module an engine cannot call: shown over names, so that nothing is missed."""

from __future__ import annotations

from collections.abc import Iterable

from ungate.trace.graph import Graph
from ungate.trace.module import Scope

__all__ = ["mentioned"]

_MOST = 200  # names followed upwards before the question is left open


def mentioned(graph: Graph, build: Scope, export: str, engines: Iterable[str]) -> bool:
    """Whether any file of the engine packages holds the export's name, or the name of any function that leads
    to it inside the library. False is a proof that the engine does not call it by name; where the library is the only
    package, it may be the engine itself, and nothing is proved.

    A function that makes an inner function and hands it out under its own name does not lead to it: whoever
    calls it uses that name."""
    engines = frozenset(engines)
    if not engines:
        return True
    library = graph.corpus.owner[build.module.file].name
    pending = [export]
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if len(seen) > _MOST:
            return True
        if any(True for _ in graph.corpus.places(name, among=engines)):
            return True
        referring = frozenset(graph.corpus.referring(name, build.module.file))
        for file in graph.corpus.holding(name, frozenset({library})):
            text = graph.corpus.text(file)
            may = file in referring or f"def {name}".encode() in text
            for scope in graph.scopes(file, name) if may else ():
                hands_out = name in scope.children
                if (
                    scope.kind == "function"
                    and not hands_out
                    and any(use.last == name and not use.stored for use in scope.uses)
                ):
                    inner = scope.name.rpartition(".")[2]
                    owner = scope.owner("class")
                    pending.append(owner.name.rpartition(".")[2] if owner and inner.startswith("__") else inner)
    return False
