"""What a function requires of the device before it runs, where a decorator keeps that in a table by backend.

::

    @backend_requirement({"cudnn": _cudnn_requirement, "trtllm": _trtllm_requirement})
    def mm_fp4(a, b, backend): ...

    @supported_compute_capability([100, 103])
    def _trtllm_requirement(a, b, backend): ...

    BackendSupportedError: mm_fp4 does not support backend 'trtllm' with capability 120
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ungate.model import Hop, Reached
from ungate.trace.chain import Trace
from ungate.trace.gates import marked
from ungate.trace.module import dotted
from ungate.trace.names import Thing

__all__ = ["required"]


def required(trace: Trace, thing: Thing, keys: Iterable[str]) -> tuple[Hop, ...]:
    """A hop for each requirement that the decorators of a function keep under one of these texts."""
    scope = trace.graph.scope(thing)
    wanted = set(keys)
    hops: list[Hop] = []
    for decorator in getattr(scope.node, "decorator_list", ()) if scope is not None else ():
        for table in (node for node in ast.walk(decorator) if isinstance(node, ast.Dict)):
            for key, value in zip(table.keys, table.values, strict=True):
                if scope is None or not isinstance(key, ast.Constant) or key.value not in wanted:
                    continue
                found = trace.graph.names.text(dotted(value), scope.parent or scope)
                asked = trace.graph.scope(found) if found is not None and found.kind == "function" else None
                if asked is None:
                    hops.append(Hop("call", scope.module.file, value.lineno, dotted(value), None))
                    continue
                gates = marked(trace.gates.between(asked.module.file, asked.first, asked.last), Reached.YES)
                note = f"what {scope.name} requires for '{key.value}' ({scope.module.file}:{key.lineno})"
                hops.append(Hop("call", asked.module.file, asked.body, asked.name, True, gates, note))
    return tuple(hops)
