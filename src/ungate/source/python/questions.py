"""The places where a module asks something about the architecture.

A question is the smallest expression that holds every part of a test that speaks of the architecture: in
``enabled and is_sm90() and size > 4`` it is ``is_sm90()``; in ``not (a() or b())`` it is ``a() or b()`` with
the negation noted.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ungate.model import Sense
from ungate.source.condition import Condition, Not, speaks
from ungate.source.python.evaluate import Evaluator, Frame
from ungate.source.python.leading import leading
from ungate.source.python.module import PythonModule, Unit
from ungate.source.python.scopes import Scope
from ungate.source.python.tokens import holds, tells, words
from ungate.source.python.values import ByArch, is_answer

__all__ = ["Question", "questions"]


@dataclass(frozen=True, slots=True)
class Question:
    """One test of the architecture.

    ``condition`` is the tree of the text in ``span``; ``sense`` tells whether that being true lets through.
    ``context`` is one of if, assert, value, return; ``compares`` is True where numbers or names of archs are compared
    on the spot, ``named`` where a predicate or flag is read. ``raises``: the answer decides about an exception.
    """

    line: int
    end_line: int
    span: tuple[int, int]
    condition: Condition
    sense: Sense
    context: str
    symbol: str
    names: tuple[str, ...]
    compares: bool
    named: bool
    raises: bool


_NEGATIVE = (ast.NotEq, ast.NotIn, ast.Lt, ast.LtE)


class _Asker:
    def __init__(self, module: PythonModule, ev: Evaluator, unit: Unit, marks: list[int]) -> None:
        self.marks = marks
        self.module = module
        self.ev = ev
        self.unit = unit
        self.found: list[Question] = []
        self.focused = frozenset(name.encode("utf-8", "replace") for name in ev.focus or ())
        self.leads: dict[int, frozenset[bytes]] = {}

    def statements(self, body: list[ast.stmt], scope: Scope) -> None:
        for node in body:
            if self.relevant(node, scope):
                self.statement(node, scope)

    def relevant(self, node: ast.expr | ast.stmt, scope: Scope) -> bool:
        """Whether a text holds any word that can lead to the architecture: a cheap test before evaluating."""
        first = decorators[0] if (decorators := getattr(node, "decorator_list", None)) else node
        start, end = self.module.span(first, node, self.unit.shift)
        if holds(self.marks, start, end):
            return True
        found: frozenset[bytes] | None = None
        inside: Scope | None = scope
        while inside is not None and inside.kind == "function":
            if led := self.leading(inside):
                found = found if found is not None else frozenset(words(self.module.data[start:end]))
                if not led.isdisjoint(found):
                    return True
            inside = inside.parent
        return False

    def tells(self, found: frozenset[bytes] | set[bytes]) -> bool:
        """Whether one of the words is telling or followed."""
        return tells(found) or not self.focused.isdisjoint(found)

    def leading(self, scope: Scope) -> frozenset[bytes]:
        """The local names of a function whose bindings hold such a word, directly or through each other."""
        ready = self.leads.get(id(scope))
        if ready is None:
            ready = self.leads[id(scope)] = leading(self.module, scope.bindings, self.tells)
        return ready

    def frame(self, node: ast.AST, scope: Scope) -> Frame:
        return Frame(scope, getattr(node, "lineno", 1) + self.unit.shift)

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                self.test(test, self.frame(test, scope), "if", refuses=_refuses(body), raises=_raises(body))
                self.statements(body, scope)
                self.statements(orelse, scope)
            case ast.While(test=test):
                self.test(test, self.frame(test, scope), "if")
                self.statements(node.body, scope)
                self.statements(node.orelse, scope)
            case ast.Assert(test=test):
                self.test(test, self.frame(test, scope), "assert", raises=True)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for each in node.decorator_list:
                    self.expression(each, self.frame(each, scope), "value")
                for default in (*node.args.defaults, *node.args.kw_defaults):
                    if default is not None:
                        self.expression(default, self.frame(default, scope), "value")
                self.statements(node.body, scope.inner(node, self.unit.shift))
            case ast.ClassDef():
                for each in node.decorator_list:
                    self.expression(each, self.frame(each, scope), "value")
                self.statements(node.body, scope.inner(node, self.unit.shift))
            case ast.Return(value=ast.expr() as value):
                self.expression(value, self.frame(value, scope), "return")
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                self.expression(value, self.frame(value, scope), "value")
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.stmt):
                        self.statement(child, scope)
                    elif isinstance(child, ast.expr):
                        self.expression(child, self.frame(child, scope), "part")
                    elif isinstance(child, ast.ExceptHandler):
                        self.statements(child.body, scope)
                    elif isinstance(child, ast.withitem):
                        self.expression(child.context_expr, self.frame(child.context_expr, scope), "part")
                    elif isinstance(child, ast.match_case):
                        self.statements(child.body, scope)

    def expression(self, node: ast.expr, frame: Frame, context: str) -> None:
        """An expression in a place where its value is used."""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and context != "value"):
            return
        if not self.relevant(node, frame.scope):
            return
        match node:
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.test(test, frame, "if")
                self.expression(body, frame, context)
                self.expression(orelse, frame, context)
                return
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                if self.test(node, frame, "value" if context == "part" else context):
                    return
            case ast.Call():
                if is_answer(self.ev.fresh(node, frame)) and self.test(node, frame, context):
                    return
            case ast.Attribute() | ast.Name() if context in ("value", "return") and not _own(node):
                if is_answer(self.ev.fresh(node, frame)) and self.test(node, frame, context):
                    return
            case ast.Lambda():
                inner = frame.scope.inner(node, self.unit.shift)
                self.expression(node.body, Frame(inner, frame.line), "return")
                return
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self.comprehension(node, frame)
                return
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child, self.at(child, frame), "part")
            elif isinstance(child, ast.keyword):
                self.expression(
                    child.value, self.at(child.value, frame), "return" if not _plain(child.value) else "part"
                )

    def at(self, node: ast.AST, frame: Frame) -> Frame:
        return frame

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame) -> None:
        from ungate.source.python import calls, names

        inner = Frame(frame.scope, frame.line, {}, frame)
        assert inner.env is not None
        for generator in node.generators:
            self.expression(generator.iter, inner, "part")
            names.unpack(self.ev, generator.target, calls.element(self.ev, generator.iter, inner), inner.env)
            for test in generator.ifs:
                self.test(test, inner, "if")
        for each in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.expression(each, inner, "part")

    def test(self, node: ast.expr, frame: Frame, context: str, *, refuses: bool = False, raises: bool = False) -> bool:
        """Report the question in a truth value, if there is one."""
        if not self.relevant(node, frame.scope):
            return False
        self.ev.spent = 0
        tree = self.ev.condition(node, frame)
        if not speaks(tree):
            if context == "if":
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child, frame, "part")
            return False
        parts, negated = self.core(node, frame)
        if self.apart(parts, frame):
            for part in parts:
                if negated:
                    part = ast.copy_location(ast.UnaryOp(ast.Not(), part), part)  # noqa: PLW2901
                self.test(part, frame, context, refuses=refuses, raises=raises)
            return True
        first, last = parts[0], parts[-1]
        span = self.module.span(first, last, self.unit.shift)
        span = self.bracketed(span, parts)
        written = self.ev.condition(node, frame)
        if len(parts) == 1:
            written = self.ev.condition(parts[0], frame)
        elif isinstance(owner := self.owner, ast.BoolOp):
            kind = ast.BoolOp(owner.op, list(parts))
            written = self.ev.condition(kind, frame)
        negative = context == "if" and _negative(node, parts, negated)
        outer_refuses = refuses or negative
        sense = Sense.REFUSE if outer_refuses != negated else Sense.ALLOW
        leaves = [leaf for part in parts for leaf in _leaves(part) if speaks(self.ev.condition(leaf, frame))]
        self.found.append(
            Question(
                line=first.lineno + self.unit.shift,
                end_line=(last.end_lineno or last.lineno) + self.unit.shift,
                span=span,
                condition=written,
                sense=sense,
                context=context,
                symbol=frame.scope.qualname,
                names=self.names(leaves, frame),
                compares=any(isinstance(leaf, ast.Compare) for leaf in leaves),
                named=any(not isinstance(leaf, ast.Compare) for leaf in leaves),
                raises=raises,
            )
        )
        return True

    def apart(self, parts: list[ast.expr], frame: Frame) -> bool:
        """Whether alternatives on lines of their own, each under other conditions, are gates of their own.

        In ``(fp8 and is_sm90()) or (fp4 and is_sm100())`` neither test speaks for the other's case.
        """
        if len(parts) < 2 or any(
            (one.end_lineno or one.lineno) >= other.lineno for one, other in itertools.pairwise(parts)
        ):
            return False
        if not any(
            isinstance(part, ast.BoolOp) and any(not speaks(self.ev.condition(each, frame)) for each in part.values)
            for part in parts
        ):
            return False
        return all(speaks(self.ev.condition(part, frame)) for part in parts)

    owner: ast.expr | None = None

    def core(self, node: ast.expr, frame: Frame) -> tuple[list[ast.expr], bool]:
        """The operands that speak, and whether an odd number of negations stands over them."""
        negated = False
        while True:
            self.owner = node
            match node:
                case ast.UnaryOp(op=ast.Not(), operand=operand):
                    negated = not negated
                    node = operand
                case ast.NamedExpr(value=value):
                    node = value
                case ast.BoolOp(values=values):
                    speaking = [i for i, each in enumerate(values) if speaks(self.ev.condition(each, frame))]
                    if len(speaking) == 1:
                        node = values[speaking[0]]
                        continue
                    if not speaking:
                        # a name that is bound again under itself can speak in the whole and in no part of it
                        return [node], negated
                    return values[speaking[0] : speaking[-1] + 1], negated
                case _:
                    return [node], negated

    def bracketed(self, span: tuple[int, int], parts: list[ast.expr]) -> tuple[int, int]:
        """The span with the brackets that belong to its first and last operand when there are several."""
        if len(parts) == 1:
            return span
        data = self.module.data
        start, end = span
        text = data[start:end]
        missing = text.count(b")") - text.count(b"(")
        while missing > 0:
            before = data.rfind(b"(", 0, start)
            if before < 0 or data[before + 1 : start].strip():
                break
            start, missing = before, missing - 1
        while missing < 0:
            after = data.find(b")", end)
            if after < 0 or data[end:after].strip():
                break
            end, missing = after + 1, missing + 1
        return start, end

    def names(self, leaves: list[ast.expr], frame: Frame) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for leaf in leaves:
            value = self.ev.value(leaf, frame)
            if isinstance(value, ByArch):
                found.update(dict.fromkeys(value.names))
            for each in ast.walk(leaf):
                if isinstance(each, ast.Call) and isinstance(each.func, ast.Name | ast.Attribute):
                    name = each.func.id if isinstance(each.func, ast.Name) else each.func.attr
                    if isinstance(self.ev.value(each, frame), ByArch):
                        found[name] = None
        return tuple(found)


def _own(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BoolOp(values=values):
            for value in values:
                yield from _leaves(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _leaves(operand)
        case ast.NamedExpr(value=value):
            yield from _leaves(value)
        case _:
            yield node


def _negative(node: ast.expr, parts: list[ast.expr], negated: bool) -> bool:
    """Whether a test without an exception reads as the way to a fallback: ``if not x``, ``if major != 9``."""
    if len(parts) != 1:
        return negated
    match parts[0]:
        case ast.Compare(ops=[op]):
            return isinstance(op, _NEGATIVE) != negated
        case _:
            return negated


def _raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Raise) for node in body)


def _refuses(body: list[ast.stmt]) -> bool:
    """Whether a branch turns away: it raises or returns False."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Raise):
        return True
    if isinstance(last, ast.Return):
        value = last.value
        if isinstance(value, ast.Tuple) and value.elts:
            value = value.elts[0]
        return isinstance(value, ast.Constant) and value.value is False
    return False


def questions(module: PythonModule, ev: Evaluator, unit: Unit, scope: Scope, marks: list[int]) -> list[Question]:
    """Every question in one parsed piece, in order of its place in the file.

    ``marks`` are the offsets of the words in the file that are telling or followed, in order.
    """
    asker = _Asker(module, ev, unit, marks)
    asker.statements(unit.body, scope)
    return sorted(asker.found, key=lambda each: each.span)


def complement(condition: Condition) -> Condition:
    """What holds where the condition does not."""
    return Not(condition)
