"""The places where a module asks something about the architecture.

A question is the smallest expression that holds every part of a test that speaks of the architecture: in
``enabled and is_sm90() and size > 4`` it is ``is_sm90()``; in ``not (a() or b())`` it is ``a() or b()`` with
the negation noted.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ungate.model import KNOWN_ARCHS, Sense
from ungate.source.condition import Condition, Not, evaluate, speaks
from ungate.source.python.cases import cases
from ungate.source.python.evaluate import Evaluator, Frame
from ungate.source.python.leading import leading
from ungate.source.python.lookups import aliased
from ungate.source.python.module import PythonModule, Unit
from ungate.source.python.narrow import narrowed
from ungate.source.python.operands import apart, bracketed, names, operands, reason, speaking, to_fallback
from ungate.source.python.outcomes import leaves as leaving
from ungate.source.python.outcomes import picks, raises, refuses, tunes
from ungate.source.python.scopes import Scope, last
from ungate.source.python.tables import keys
from ungate.source.python.tokens import holds, tells, words
from ungate.source.python.values import FOG, FREE, SOME, ByArch, Value, is_answer

__all__ = ["Question", "questions"]


@dataclass(frozen=True, slots=True)
class Question:
    """One test of the architecture.

    ``condition`` is the tree of the text in ``span``; ``sense`` tells whether that being true lets through.
    ``context`` is one of if, assert, value, return, case, lookup; ``compares`` is True where numbers or names of archs
    are compared on the spot, ``named`` where a predicate or flag is read. ``raises``: the answer decides about an
    exception.
    ``choice``: both ways go on alike, with other numbers. ``within`` are the archs that get as far as the test, where
    the tests around it and the early ways out before it leave out some; None where they do not.
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
    choice: bool = False
    within: frozenset[int] | None = None


_REFUSES_IF = re.compile(r"(?:error|raise|throw|fail|reject|refuse|abort|skip)(?:\w*_)?_?[iI]f$")
"""A call that turns away where its first argument holds: ``skipif(old)``, ``self._runtime_error_if(major < 9, …)``."""
_ALL = frozenset(KNOWN_ARCHS)


class _Asker:
    def __init__(self, module: PythonModule, ev: Evaluator, unit: Unit, marks: list[int]) -> None:
        self.marks = marks
        self.module = module
        self.ev = ev
        self.unit = unit
        self.found: list[Question] = []
        self.focused = frozenset(name.encode("utf-8", "replace") for name in ev.focus or ())
        self.leads: dict[int, frozenset[bytes]] = {}
        self.within = _ALL

    def statements(self, body: list[ast.stmt], scope: Scope) -> None:
        before = self.within
        for index, node in enumerate(body):
            if not self.relevant(node, scope):
                continue
            if not isinstance(node, ast.If):
                self.statement(node, scope)
                continue
            self.branch(node, scope, tunes(node, body[index + 1 :]))
            if leaving(node.body) and not node.orelse:
                self.within = self.narrower(node.test, scope, holds=False)
        self.within = before

    def branch(self, node: ast.If, scope: Scope, choice: bool) -> None:
        frame = self.frame(node.test, scope)
        self.test(node.test, frame, "if", refuses=refuses(node.body), raises=raises(node.body), choice=choice)
        before = self.within
        self.within = self.narrower(node.test, scope, holds=True)
        self.statements(node.body, scope)
        self.within = before
        if node.orelse:
            self.within = self.narrower(node.test, scope, holds=False)
            match node.orelse:
                case [ast.If() as other] if choice:
                    if self.relevant(other, scope):
                        self.branch(other, scope, choice)
                case other:
                    self.statements(other, scope)
            self.within = before

    def narrower(self, test: ast.expr, scope: Scope, *, holds: bool) -> frozenset[int]:
        """The archs of ``within`` that get past a test."""
        if not self.relevant(test, scope):
            return self.within
        return self.within & narrowed(self.ev, test, self.frame(test, scope), holds=holds)

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
            case ast.If():
                self.branch(node, scope, tunes(node, ()))
            case ast.Match():
                self.match(node, scope)
            case ast.While(test=test):
                self.test(test, self.frame(test, scope), "if")
                self.statements(node.body, scope)
                self.statements(node.orelse, scope)
            case ast.Assert(test=test) if not self.is_there(test, scope):
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
                    if isinstance(child, ast.expr):
                        self.expression(child, self.frame(child, scope), "part")
                    elif isinstance(child, ast.ExceptHandler):
                        self.statements(child.body, scope)
                    elif isinstance(child, ast.withitem):
                        self.expression(child.context_expr, self.frame(child.context_expr, scope), "part")
                for name in ("body", "orelse", "finalbody"):
                    if block := getattr(node, name, None):
                        self.statements(block, scope)

    def match(self, node: ast.Match, scope: Scope) -> None:
        frame = self.frame(node.subject, scope)
        self.expression(node.subject, frame, "part")
        asked = self.relevant(node.subject, scope)
        for test, each in cases(node):
            if asked and speaks(self.ev.condition(test, frame)):
                self.ask(test, frame, "case", refuses(each.body), raises(each.body))
            if each.guard is not None and not asked:
                self.test(each.guard, frame, "if")
            self.statements(each.body, scope)

    def expression(self, node: ast.expr, frame: Frame, context: str) -> None:
        """An expression in a place where its value is used."""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and context != "value"):
            return
        if not self.relevant(node, frame.scope):
            return
        match node:
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.test(test, frame, "if", choice=picks(node))
                self.expression(body, frame, context)
                self.expression(orelse, frame, context)
                return
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                if self.test(node, frame, "value" if context == "part" else context):
                    return
            case ast.Call(func=function, args=[asked, *rest]) if _REFUSES_IF.search(last(function)):
                if self.test(asked, frame, "value", refuses=True):
                    for each in (*rest, *(keyword.value for keyword in node.keywords)):
                        self.expression(each, frame, "part")
                    return
            case ast.Call():
                if _is_yes_or_no(self.ev.fresh(node, frame)) and self.test(node, frame, context):
                    return
            case ast.Attribute() | ast.Name() if context in ("value", "return") and not _own(node):
                if _is_yes_or_no(self.ev.fresh(node, frame)) and self.test(node, frame, context):
                    return
            case ast.Subscript(ctx=ast.Load()):
                self.lookup(node, frame)
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

    def is_there(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an assertion reminds that a thing is there which some archs get none of: it turns nobody away.

        What was looked up in a table is another matter: there the assertion is what refuses.
        """
        match node:
            case ast.Compare(left=of, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
                value = self.ev.fresh(of, self.frame(of, scope)) if self.relevant(of, scope) else FREE
                return isinstance(value, ByArch) and all(
                    item is None or item is True or item is FOG for item in value.items
                )
            case _:
                return False

    def is_missing(self, node: ast.expr, frame: Frame) -> bool:
        """Whether a test asks for the zero that stands for no entry in a table: ``size == 0``."""
        match node:
            case ast.Compare(left=of, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
                value = self.ev.value(of, frame)
                return isinstance(value, ByArch) and SOME in value.items
            case _:
                return False

    def lookup(self, node: ast.Subscript, frame: Frame) -> None:
        """Report ``TABLE[capability]``, which raises for what is no key, unless only keys get as far."""
        self.ev.spent = 0
        if isinstance(node.value, ast.Call) or not isinstance(index := self.ev.value(node.slice, frame), ByArch):
            return
        table = self.ev.beside(node.value, frame, index)
        if not isinstance(table, dict):
            return
        self.ev.tables.update((last(node.value), aliased(node.value, frame.scope)))
        served = keys(table, index)
        if not speaks(served) or all(evaluate(served, arch) for arch in self.within):
            return
        span = self.module.span(node, node, self.unit.shift)
        self.found.append(
            Question(
                line=node.lineno + self.unit.shift,
                end_line=(node.end_lineno or node.lineno) + self.unit.shift,
                span=span,
                condition=served,
                sense=Sense.ALLOW,
                context="lookup",
                symbol=frame.scope.qualname,
                names=tuple(filter(None, (last(node.value),))),
                compares=False,
                named=True,
                raises=True,
                within=None if self.within == _ALL else self.within,
            )
        )

    def at(self, node: ast.AST, frame: Frame) -> Frame:
        return frame

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame) -> None:
        from ungate.source.python.calls import element
        from ungate.source.python.names import unpack

        inner = Frame(frame.scope, frame.line, {}, frame)
        assert inner.env is not None
        for generator in node.generators:
            self.expression(generator.iter, inner, "part")
            unpack(self.ev, generator.target, element(self.ev, generator.iter, inner), inner.env)
            for test in generator.ifs:
                self.test(test, inner, "if")
        for each in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.expression(each, inner, "part")

    def test(
        self,
        node: ast.expr,
        frame: Frame,
        context: str,
        *,
        refuses: bool = False,
        raises: bool = False,
        choice: bool = False,
    ) -> bool:
        """Report the question in a truth value, if there is one."""
        if not self.relevant(node, frame.scope):
            return False
        self.ev.spent = 0
        if not speaks(self.ev.condition(node, frame)):
            if context == "if":
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child, frame, "part")
            return False
        self.ask(node, frame, context, refuses, raises, choice)
        return True

    def ask(
        self, node: ast.expr, frame: Frame, context: str, refuses: bool, raises: bool, choice: bool = False
    ) -> None:
        """Report the question, or the questions, in a truth value that speaks."""
        parts, negated, owner = speaking(self.ev, node, frame)
        if apart(self.ev, parts, frame):
            for part in parts:
                if negated:
                    part = ast.copy_location(ast.UnaryOp(ast.Not(), part), part)  # noqa: PLW2901
                self.test(part, frame, context, refuses=refuses, raises=raises, choice=choice)
            return
        first, last = parts[0], parts[-1]
        span = bracketed(self.module.data, self.module.span(first, last, self.unit.shift), parts)
        written = self.ev.condition(node, frame)
        if len(parts) == 1:
            written = self.ev.condition(parts[0], frame)
        elif isinstance(owner, ast.BoolOp):
            written = self.ev.condition(ast.BoolOp(owner.op, list(parts)), frame)
            if isinstance(owner.op, ast.And) and all(evaluate(written, arch) is False for arch in KNOWN_ARCHS):
                # a flag that leaves none of the archs that are compared with is off for another reason
                compared = [part for part in parts if isinstance(part, ast.Compare)]
                told = self.ev.condition(ast.BoolOp(owner.op, list(compared)), frame)
                written = told if speaks(told) else written
        negative = context == "if" and (to_fallback(node, parts, negated) or self.is_missing(parts[0], frame))
        sense = Sense.REFUSE if (refuses or negative) != negated else Sense.ALLOW
        if len(parts) == 1 and (why_not := reason(parts[0])) is not None:
            sense = Sense.REFUSE if why_not else Sense.ALLOW
        leaves = [each for part in parts for each in operands(part) if speaks(self.ev.condition(each, frame))]
        self.found.append(
            Question(
                line=first.lineno + self.unit.shift,
                end_line=(last.end_lineno or last.lineno) + self.unit.shift,
                span=span,
                condition=written,
                sense=sense,
                context=context,
                symbol=frame.scope.qualname,
                names=names(self.ev, leaves, frame),
                compares=any(isinstance(leaf, ast.Compare) for leaf in leaves),
                named=any(not isinstance(leaf, ast.Compare) for leaf in leaves),
                raises=raises,
                choice=choice,
                within=None if self.within == _ALL else self.within,
            )
        )


def _is_yes_or_no(value: Value) -> bool:
    """Whether a value that is used, not tested, is an answer: a thing that some archs get none of is not."""
    return is_answer(value) and None not in value.items


def _own(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Name)


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
