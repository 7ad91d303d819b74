"""Operators registered with torch: which function ``torch.ops.namespace.name`` runs.

Registrations as engines write them: ``direct_register_custom_op(op_name="n", op_func=f)``,
``library.define`` and ``impl("n", f)``, and decorators such as ``@torch.library.custom_op("ns::n")`` or
``@register_custom_op("ns::n")`` whose first argument or ``op_name`` is the name.
"""

from __future__ import annotations

import ast

from ungate.trace.corpus import Corpus
from ungate.trace.module import Scope, dotted
from ungate.trace.names import Names, Thing

__all__ = ["Operators"]

_WORDS = (b"custom_op", b".impl(", b".define(")  # every way of registering holds one of them


class Operators:
    """Registered operators, looked up by name in the files that hold the name."""

    def __init__(self, corpus: Corpus, names: Names) -> None:
        self.corpus = corpus
        self.names = names
        self._targets: dict[str, Thing | None] = {}

    def target(self, text: str) -> Thing | None:
        """The function behind ``torch.ops.ns.name``, None where no registration of it is in the packages."""
        parts = text.split(".")
        if parts[:2] != ["torch", "ops"] or len(parts) < 4:
            return None
        name = parts[3].rstrip("()[]")
        if name not in self._targets:
            self._targets[name] = self._registered(name)
        return self._targets[name]

    def names_of(self, thing: Thing) -> tuple[str, ...]:
        """The operator names that a function is registered under."""
        scope = self.names.scope(thing)
        if scope is None or not isinstance(scope.node, ast.FunctionDef):
            return ()
        found = [name for decorator in scope.node.decorator_list if (name := _decorated(decorator, scope))]
        if _registers(scope.module.top):
            for call in _calls(scope.module.top.node):
                name, function = _registration(call)
                if name and function == scope.node.name:
                    found.append(name)
        return tuple(dict.fromkeys(found))

    def _registered(self, name: str) -> Thing | None:
        for file in self.corpus.holding(name):
            text = self.corpus.text(file)
            module = self.names.file(file) if any(word in text for word in _WORDS) else None
            if module is None:
                continue
            for scope in module.top.within():
                node = scope.node
                if isinstance(node, ast.FunctionDef) and any(_decorated(d, scope) == name for d in node.decorator_list):
                    return Thing("function", module.name, scope.name)
            if _registers(module.top):
                for call in _calls(module.top.node):
                    registered, function = _registration(call)
                    if registered == name and function:
                        return self.names.text(function, module.at(call.lineno))
        return None


def _registers(top: Scope) -> bool:
    return any("custom_op" in use.last or use.last in ("impl", "define") for s in top.within() for use in s.uses)


def _calls(node: ast.AST) -> list[ast.Call]:
    return [child for child in ast.walk(node) if isinstance(child, ast.Call)]


def _registration(call: ast.Call) -> tuple[str, str]:
    """(operator name, dotted function) of a registering call, empty where it is none."""
    last = dotted(call.func).rpartition(".")[2]
    if "custom_op" not in last and last != "impl":
        return "", ""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    name = keywords.get("op_name") or (call.args[0] if call.args else None)
    function = keywords.get("op_func") or (call.args[1] if len(call.args) > 1 else None)
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str) or function is None:
        return "", ""
    return name.value.rpartition("::")[2], dotted(function)


def _decorated(decorator: ast.expr, scope: Scope) -> str:
    """The operator name that a decorator registers, empty where it registers none."""
    text = dotted(decorator).rstrip("()")
    if "custom_op" not in text.rpartition(".")[2]:
        return ""
    if isinstance(decorator, ast.Call):
        keywords = {keyword.arg: keyword.value for keyword in decorator.keywords}
        name = keywords.get("op_name") or (decorator.args[0] if decorator.args else None)
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return name.value.rpartition("::")[2]
    return scope.name.rpartition(".")[2]
