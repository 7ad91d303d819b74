"""The numbers that the code around a gate knows when it asks: rows of the call, ranks of tensor parallelism."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ungate.model import Gate
from ungate.patch.edits import Unopenable
from ungate.patch.edits._imports import Module

__all__ = ["Scope"]

_ROWS = frozenset(
    {
        *("batch_size", "bs", "num_tokens", "num_token", "n_tokens", "token_num", "tokens_num", "total_tokens"),
        *("num_rows", "n_rows", "rows", "num_input_tokens", "total_num_tokens"),
    }
)
_RANKS = frozenset(
    {
        *("world_size", "tp_size", "tensor_parallel_size", "tp_world_size", "group_size", "n_ranks", "num_ranks"),
        *("nranks", "tp_degree"),
    }
)
_ACTIVATIONS = frozenset(
    {"x", "hidden_states", "input", "input_", "inputs", "inp", "input_tensor", "tensor", "allreduce_in", "activations"}
)
_MAKERS = frozenset({"__init__", "__post_init__"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Scope:
    """The functions and classes around one line, the outermost first."""

    line: int
    functions: tuple[_Function, ...]
    classes: tuple[ast.ClassDef, ...]

    @classmethod
    def around(cls, content: bytes, gate: Gate) -> Scope:
        """What stands around the gate; nothing where the file is no Python."""
        line = content.count(b"\n", 0, gate.span[0]) + 1
        try:
            tree: ast.AST = Module.read(content).tree
        except Unopenable:
            tree = ast.Module([], [])
        around = [node for node in ast.walk(tree) if _holds(node, line)]
        functions = tuple(node for node in around if isinstance(node, _Function))
        return cls(line, functions, tuple(node for node in around if isinstance(node, ast.ClassDef)))

    def _spoken(self, words: frozenset[str]) -> str:
        """A parameter, or a variable bound above the gate, of the innermost function that has one."""
        for function in reversed(self.functions):
            arguments = function.args
            bound = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            stores = (n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            bound += [name.id for name in stores if name.lineno < self.line]
            if found := next((name for name in bound if name in words), ""):
                return found
        return ""

    def rows(self) -> str:
        """What counts the rows of this call: a name, or the length of a tensor that the function itself reads."""
        if found := self._spoken(_ROWS):
            return found
        for function in reversed(self.functions):
            given = {argument.arg for argument in function.args.args} & _ACTIVATIONS
            for node in ast.walk(function):
                match node:
                    case ast.Subscript(
                        value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=0)
                    ) if name in given:
                        return f"{name}.shape[0]"
                    case _:
                        pass
        return ""

    def ranks(self) -> str:
        """What holds the tensor-parallel size: a name, or an attribute that the class has set by then."""
        if found := self._spoken(_RANKS):
            return found
        if not (self.functions and self.classes):
            return ""
        method = self.functions[0]
        if not (method.args.args and method.args.args[0].arg == "self"):
            return ""
        owner = self.classes[-1]
        return next((f"self.{name}" for name in self._set(owner, method) if name in _RANKS), "")

    def _set(self, owner: ast.ClassDef, method: _Function) -> Iterator[str]:
        """Attributes that are declared as fields, or assigned when an object is made, before the gate asks."""
        for node in owner.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield name
                case ast.FunctionDef(name=maker) if maker in _MAKERS and (method.name not in _MAKERS or node is method):
                    for inner in ast.walk(node):
                        match inner:
                            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                                if node is not method or inner.lineno < self.line:
                                    yield name
                            case _:
                                pass
                case _:
                    pass


def _holds(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is not None and last is not None and first <= line <= last
