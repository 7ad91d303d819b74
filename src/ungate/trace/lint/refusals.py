"""What a function refuses whenever it is called on an architecture: an error, or a module that is not built for it.

Only what is certain counts: statements behind a test that something else than the architecture decides are left out,
and so is everything after a return behind such a test. So are calls inside ``try``, loops and lambdas.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

from ungate.model import Gate, Reached, Target
from ungate.trace.chain import Trace
from ungate.trace.jit import Step, ahead_calls
from ungate.trace.lint.branches import Branches, Verdict
from ungate.trace.module import Scope, dotted
from ungate.trace.names import Thing

__all__ = ["Refusal", "Refusals", "calls"]

_DEEPEST = 6  # calls below the one that is looked at
_BUILDS = frozenset({"py-version-list", "py-gencode"})
_NEVER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call fails. ``how`` is raises, builds (a module for other architectures only) or image (a binary without
    code for it); ``way`` are the functions from the one that is called down to ``symbol``."""

    how: str
    symbol: str
    file: str
    line: int
    end_line: int
    evidence: str
    gate: Gate | None = None
    way: tuple[str, ...] = ()


class Refusals:
    """Asked for one function and one architecture at a time; answers are kept."""

    def __init__(self, trace: Trace, branches: Branches) -> None:
        self.trace = trace
        self.graph = trace.graph
        self.branches = branches
        self._known: dict[tuple[Thing, int], Refusal | None] = {}
        self._images: dict[tuple[str, int], Refusal | None] = {}

    def called(self, scope: Scope, call: ast.Call, arch: int, depth: int = 0) -> Refusal | None:
        """What a call in a function comes to."""
        for each in (*call.args, *(keyword.value for keyword in call.keywords)):
            gate = self.branches.gate(scope, each, each)
            if gate is not None and gate.pattern in _BUILDS and gate.role == "use" and arch not in gate.passes.yes:
                return _by(gate, "builds", scope)
        found = self.graph.names.text(dotted(call.func), scope)
        if found is None or found.kind == "outside":
            return self._ahead(scope, call, arch, found)
        required = self._required(found, call, arch)
        if required is not None:
            return required
        if found.kind == "class":
            found = Thing("function", found.module, f"{found.name}.__init__")
        if found.kind not in ("function", "native") or (found.kind == "function" and found.trail):
            return None
        thing = Thing("function", found.module, found.name)
        refusal = self.of(thing, arch, depth + 1)
        if refusal is None or refusal.symbol == thing.name:
            return refusal
        return replace(refusal, way=(thing.name, *refusal.way))

    def of(self, thing: Thing, arch: int, depth: int = 0) -> Refusal | None:
        """What a function refuses by itself or through what it always calls."""
        key = (thing, arch)
        if key not in self._known:
            scope = self.graph.scope(thing) if depth <= _DEEPEST else None
            if scope is None or scope.kind != "function":
                return None
            self._known[key] = None  # while it is looked at: a function that calls itself adds nothing
            built = self._built(scope, arch) if self.graph.names.building(thing) else None
            self._known[key] = built or self._block(scope, getattr(scope.node, "body", []), arch, None, depth)[0]
        return self._known[key]

    def _built(self, scope: Scope, arch: int) -> Refusal | None:
        """The lists of a function that builds a module, where none of them holds the architecture."""
        lists = [
            gate
            for gate in self.branches.gates.between(scope.module.file, scope.first, scope.last)
            if gate.pattern in _BUILDS and gate.role != "define" and gate.passes.decided
            if self._always(scope, gate.line, arch)  # a list in one of several branches is not sure
        ]
        if not lists or any(arch in gate.passes.yes for gate in lists):
            return None
        return _by(lists[0], "builds", scope)

    def _always(self, scope: Scope, line: int, arch: int) -> bool:
        """Whether a line stands in no branch but those that the architecture is sure to take."""
        for node in ast.walk(scope.node):
            if not isinstance(node, ast.If) or not node.lineno <= line <= (node.end_lineno or node.lineno):
                continue
            then = node.body[0].lineno <= line <= (node.body[-1].end_lineno or node.body[-1].lineno)
            if self.branches.told(scope, node.test, arch).holds is not then:
                return False
        return True

    def _required(self, found: Thing, call: ast.Call, arch: int) -> Refusal | None:
        """What a decorator of the called function requires, by backend where the call names one."""
        scope = self.graph.scope(found) if found.kind == "function" else None
        given = {
            keyword.value.value
            for keyword in call.keywords
            if keyword.arg and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
        }
        for decorator in getattr(scope.node, "decorator_list", ()) if scope is not None else ():
            for table in (node for node in ast.walk(decorator) if isinstance(node, ast.Dict)):
                keys = [key.value if isinstance(key, ast.Constant) else None for key in table.keys]
                asked = [value for key, value in zip(keys, table.values, strict=True) if key in given] or (
                    table.values if "backend" not in {keyword.arg for keyword in call.keywords} else []
                )
                refused = [self._requirement(scope, value, arch) for value in asked] if scope is not None else []
                first = refused[0] if refused and all(refused) else None
                if first is not None and scope is not None:
                    return replace(first, way=(scope.name,))
        return None

    def _requirement(self, scope: Scope, value: ast.expr, arch: int) -> Refusal | None:
        found = self.graph.names.text(dotted(value), scope.parent or scope)
        asked = self.graph.scope(found) if found is not None and found.kind == "function" else None
        if asked is None:
            return None
        for gate in self.branches.gates.between(asked.module.file, asked.first, asked.body):
            if gate.pattern == "py-decorator" and gate.passes.decided and arch not in gate.passes.yes:
                return _by(gate, "raises", asked)
        return None

    def _ahead(self, scope: Scope, call: ast.Call, arch: int, found: Thing | None) -> Refusal | None:
        text = dotted(call.func)
        if "." not in text and found is None:
            return None
        known = str(found) if found is not None and found.module != "torch" else ""
        key = (f"{text} {known}", arch)
        if key not in self._images:
            self._images[key] = None
            use = next((use for use in ahead_calls(self.graph, scope) if use.node is call.func), None)
            hops = self.trace.binaries.hops(Step(scope, use), Target(arch), known) if use is not None else ()
            if hops and all(hop.blocker for hop in hops):
                hop = hops[0]
                self._images[key] = Refusal("image", text, hop.file, 0, 0, hop.blocker)
        return self._images[key]

    def _own(self, scope: Scope, test: ast.expr, arch: int) -> Verdict:
        """What a test comes to, left open where it compares a parameter: the caller says which number that is."""
        node = scope.node
        given = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)} if _is_function(node) else set()
        for compare in (each for each in ast.walk(test) if isinstance(each, ast.Compare)):
            if any(isinstance(side, ast.Name) and side.id in given for side in ast.walk(compare.left)):
                return Verdict(None)
        return self.branches.told(scope, test, arch)

    def _block(
        self, scope: Scope, body: list[ast.stmt], arch: int, why: Gate | None, depth: int
    ) -> tuple[Refusal | None, bool]:
        """(what a block refuses, whether what follows it is not sure to be come to)."""
        for statement in body:
            match statement:
                case ast.If(test=test, body=then, orelse=other):
                    told = self._own(scope, test, arch)
                    if told.holds is None:
                        first, _ = self._block(scope, then, arch, why, depth)
                        second, _ = self._block(scope, other, arch, why, depth)
                        if first is not None and second is not None:
                            return first, True
                        if _leaves(then) or _leaves(other):
                            return None, True
                        continue
                    found, ends = self._block(scope, then if told.holds else other, arch, told.gate or why, depth)
                    if found is not None or ends:
                        return found, True
                case ast.Assert(test=test):
                    told = self._own(scope, test, arch)
                    if told.holds is False and told.gate is not None:
                        return _by(told.gate, "raises", scope), True
                case ast.Raise():
                    return (_by(why, "raises", scope) if why is not None else None), True
                case ast.With(body=inner):
                    found, ends = self._block(scope, inner, arch, why, depth)
                    if found is not None or ends:
                        return found, True
                case ast.Expr() | ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Return():
                    for call in calls(statement):
                        refusal = self.called(scope, call, arch, depth)
                        if refusal is not None:
                            return refusal, True
                    if isinstance(statement, ast.Return):
                        return None, True
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom():
                    continue
                case _:
                    if _leaves([statement]):
                        return None, True
        return None, False


def _is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that evaluating an expression is sure to make."""
    if isinstance(node, _NEVER):
        return
    match node:
        case ast.IfExp(test=test):
            yield from calls(test)
        case ast.BoolOp(values=values):
            yield from calls(values[0])
        case _:
            for child in ast.iter_child_nodes(node):
                yield from calls(child)
    if isinstance(node, ast.Call):
        yield node


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a block may leave the function without an error."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    pending: list[ast.AST] = list(body)
    while pending:
        at = pending.pop()
        if isinstance(at, ast.Return | ast.Continue | ast.Break):
            return True
        if not isinstance(at, (*inner, ast.expr)):
            pending.extend(ast.iter_child_nodes(at))
    return False


def _by(gate: Gate, how: str, scope: Scope) -> Refusal:
    gate = replace(gate, reached=Reached.YES)
    evidence = f"{gate.condition} admits {gate.passes}"
    return Refusal(how, scope.name, gate.file, gate.line, gate.end_line, evidence, gate)
