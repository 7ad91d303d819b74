"""A boolean Python expression.

    and (is_sm90_supported() or is_sm100_supported())
    and (is_sm90_supported() or is_sm100_supported() or is_sm120_supported())

    if major == 10:      ->   if major in (10, 12):
    if not is_sm100():   ->   if not (is_sm100() or is_sm120()):
    if sm in (90, 100):  ->   if sm in (90, 100, 120):

Terms that are not about the architecture (model, dtype, flags) keep their say. Where the expression leads to the
refusal, it is made false for the wanted archs instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from ungate.model import Form, Sense
from ungate.patch.edits import Opening, Place, Replacement, Unopenable, int_list, opens, string_list, tuple_list
from ungate.patch.edits._names import named, renamed
from ungate.patch.edits._predicates import Admission
from ungate.patch.edits._pyexpr import Expression
from ungate.patch.edits._python_admission import admission, constants, subject
from ungate.patch.edits._restriction import python_condition
from ungate.patch.edits._units import Unit, covered, spelled

__all__ = ["open_expression"]


@dataclass
class _Opener:
    """Walks the expression once; ``admits`` and ``imports`` gather what the written text brings along."""

    place: Place
    expression: Expression
    admits: set[int] = field(default_factory=set)
    imports: list[Replacement] = field(default_factory=list)

    def _admission(self, node: ast.expr) -> Admission:
        found = admission(self.place, self.expression, [t for t in self.expression.terms(node) if self._arch(t)])
        self.admits |= found.archs
        self.imports += found.imports
        if self.place.when:
            text = b"(" + found.text + b")" if b" or " in found.text else found.text
            text = b"(" + text + b" and " + python_condition(self.place) + b")"
            return Admission(text, found.archs, found.imports)
        return found

    def _arch(self, node: ast.expr) -> bool:
        return self.expression.about_arch(node)

    def open(self, node: ast.expr, parent: ast.expr | None = None) -> Iterator[Replacement]:
        """Replacements that make the node true for the wanted archs."""
        x = self.expression
        if x.pure(node):
            yield from self._widen(node, parent)
            return
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield from self.shut(operand, node)
            case ast.BoolOp(op=ast.And(), values=values):
                for run in self._runs(values):
                    if x.pure(run[0]) and len(run) > 1:
                        yield from self._widen_run(run, node)
                    elif x.touches(run[0]):
                        yield from self.open(run[0], node)
            case ast.BoolOp(op=ast.Or(), values=values):
                settled = [value for value in values if x.pure(value)]
                if settled:
                    end = x.outer(settled[-1], node)[1]
                    yield Replacement(end, end, b" or " + self._admission(node).text)
                else:
                    yield from self.open(next(value for value in values if x.touches(value)), node)
            case ast.Call(args=[inner]):
                yield from self.open(inner, node)
            case _:
                raise Unopenable("no term of its expression tests the architecture in a way that can be widened")

    def shut(self, node: ast.expr, parent: ast.expr | None = None) -> Iterator[Replacement]:
        """Replacements that make the node false for the wanted archs."""
        x = self.expression
        if x.pure(node):
            yield from self._narrow(node, parent)
            return
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield from self.open(operand, node)
            case ast.BoolOp(op=ast.Or(), values=values):
                for value in values:
                    if x.touches(value):
                        yield from self.shut(value, node)
            case ast.BoolOp(op=ast.And(), values=values):
                settled = [value for value in values if x.pure(value)]
                if settled:
                    end = x.outer(settled[-1], node)[1]
                    yield Replacement(end, end, b" and " + self._refusal(node))
                else:
                    yield from self.shut(next(value for value in values if x.touches(value)), node)
            case ast.Call(args=[inner]):
                yield from self.shut(inner, node)
            case _:
                raise Unopenable("no term of its expression tests the architecture in a way that can be narrowed")

    def _runs(self, values: list[ast.expr]) -> Iterator[list[ast.expr]]:
        run: list[ast.expr] = []
        for value in values:
            if self.expression.pure(value):
                run.append(value)
                continue
            if run:
                yield run
                run = []
            yield [value]
        if run:
            yield run

    def _widen_run(self, run: list[ast.expr], parent: ast.expr) -> Iterator[Replacement]:
        start, end = self.expression.outer(run[0], parent)[0], self.expression.outer(run[-1], parent)[1]
        found = self._admission(ast.BoolOp(ast.And(), run))
        yield Replacement(start, start, b"((")
        yield Replacement(end, end, b") or " + found.text + b")")

    def _compare(self, node: ast.expr, operators: tuple[type[ast.cmpop], ...]) -> ast.Compare | None:
        """The node as a single comparison of a subject with constants, by one of these operators."""
        if self.place.when:
            return None
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], operators):
            return node if subject(node) and constants(node.comparators[0]) else None
        return None

    def _names(
        self, node: ast.expr, single: type[ast.cmpop], several: type[ast.cmpop]
    ) -> tuple[Replacement, ...] | None:
        """``x == "sm_100"`` becomes ``x in ("sm_100", "sm_120")``; a display of such names becomes longer."""
        if self.place.when or not (isinstance(node, ast.Compare) and len(node.ops) == 1):
            return None
        right = node.comparators[0]
        start, end = self.expression.span(right)
        elements = right.elts if isinstance(right, ast.List | ast.Tuple | ast.Set) else []
        texts = [e for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        if isinstance(node.ops[0], several) and texts and len(texts) == len(elements):
            made = string_list.widened(self.place, start, end)
            self.admits |= made.admits
            return made.replacements
        if isinstance(node.ops[0], single) and isinstance(right, ast.Constant) and isinstance(right.value, str):
            text = self.expression.text(right).decode()
            if len(named(text)) != 1:
                return None
            names = [text, *(renamed(text, arch) for arch in sorted(self.place.missing))]
            self.admits |= self.place.missing
            left = self.expression.span(node.left)[1]
            sign, word = (b"==", "in") if single is ast.Eq else (b"!=", "not in")
            at = left + self.expression.content[left:start].index(sign)
            return (Replacement(at, end, f"{word} ({', '.join(names)})".encode()),)
        return None

    def _display(self, node: ast.expr, unit: Unit | None, *, refuses: bool = False) -> Iterator[Replacement]:
        start, end = self.expression.outer(node, self.expression.root)
        start, end = self.expression.span(node) if isinstance(node, ast.List | ast.Set | ast.Tuple) else (start, end)
        widen = int_list.widened if unit else tuple_list.widened
        made = widen(self.place, start, end, refuses=refuses)
        self.admits |= made.admits
        yield from made.replacements

    def _widen(self, node: ast.expr, parent: ast.expr | None) -> Iterator[Replacement]:
        x = self.expression
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from self.shut(node.operand, node)
            return
        if isinstance(node, ast.Call) and x.terms(node) != [node]:
            yield from self.open(node.args[0], node)
            return
        if (made := self._names(node, ast.Eq, ast.In)) is not None:
            yield from made
            return
        if (equal := self._compare(node, (ast.Eq,))) and (found := subject(equal)) and found[0] is equal.left:
            yield from self._equality(equal, found[1])
            return
        if inside := self._compare(node, (ast.In,)):
            found = subject(inside)
            assert found is not None
            yield from self._display(inside.comparators[0], found[1])
            return
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            end = x.outer(node.values[-1], node)[1]
            yield Replacement(end, end, b" or " + self._admission(node).text)
            return
        yield from self._beside(node, parent, b" or ", self._admission(node).text)

    def _equality(self, node: ast.Compare, unit: Unit | None) -> Iterator[Replacement]:
        """``x == 10`` becomes ``x in (10, 12)``, ``x != 10`` becomes ``x not in (10, 12)``."""
        (_, at), (start, end) = self.expression.span(node.left), self.expression.span(node.comparators[0])
        old, archs = constants(node.comparators[0])[0], self.place.missing
        if unit is None:
            assert isinstance(old, tuple)
            texts = [str(pair) for pair in sorted({old, *(divmod(arch, 10) for arch in archs)})]
        else:
            assert isinstance(old, int)
            texts = [str(value) for value in sorted({old, *spelled(archs, unit)})]
        self.admits |= covered(archs, unit) if unit else archs
        if len(texts) == 1:
            raise Unopenable("it names the target already, so that something else holds it back")
        positive = isinstance(node.ops[0], ast.Eq)
        at += self.expression.content[at:start].index(b"==" if positive else b"!=")
        yield Replacement(at, end, f"{'in' if positive else 'not in'} ({', '.join(texts)})".encode())

    def _beside(self, node: ast.expr, parent: ast.expr | None, word: bytes, text: bytes) -> Iterator[Replacement]:
        """``node`` becomes ``node word text``, in parentheses where what stands around it binds closer."""
        start, end = self.expression.span(node)
        content = self.expression.content
        before = content[max(0, start - 200) : start].rstrip(b" \t")
        after = content[end : end + 200].lstrip(b" \t")
        enclosed = before.endswith(b"(") and after.startswith(b")")
        statement = before.endswith((b" if", b"\nif", b"elif", b"return", b"while", b" =", b"assert")) and (
            after[:1] in (b":", b"\n", b"\r", b"#", b"") and parent is None
        )
        both = isinstance(node, ast.BoolOp)
        if both or not (enclosed or statement):
            if both and (enclosed or statement):
                yield Replacement(start, start, b"(")
                yield Replacement(end, end, b")" + word + text)
                return
            yield Replacement(start, start, b"((" if both else b"(")
            yield Replacement(end, end, (b")" if both else b"") + word + text + b")")
            return
        yield Replacement(end, end, word + text)

    def _refusal(self, node: ast.expr) -> bytes:
        text = self._admission(node).text
        simple = b" or " not in text and not any(sign in text for sign in (b" == ", b" in "))
        return b"not " + text if simple or text.startswith(b"(") else b"not (" + text + b")"

    def _narrow(self, node: ast.expr, parent: ast.expr | None) -> Iterator[Replacement]:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from self.open(node.operand, node)
            return
        if isinstance(node, ast.Call) and self.expression.terms(node) != [node]:
            yield from self.shut(node.args[0], node)
            return
        if (made := self._names(node, ast.NotEq, ast.NotIn)) is not None:
            yield from made
            return
        if (inside := self._compare(node, (ast.NotIn,))) and (found := subject(inside)):
            yield from self._display(inside.comparators[0], found[1])
            return
        if (unequal := self._compare(node, (ast.NotEq,))) and (found := subject(unequal)) and found[0] is unequal.left:
            yield from self._equality(unequal, found[1])
            return
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            end = self.expression.outer(node.values[-1], node)[1]
            yield Replacement(end, end, b" and " + self._refusal(node))
            return
        yield from self._beside(node, parent, b" and ", self._refusal(node))


@opens(Form.PYTHON_EXPRESSION)
def open_expression(place: Place) -> Opening:
    """Open a boolean expression for the wanted archs."""
    expression = Expression.read(place)
    if not expression.touches(expression.root):
        raise Unopenable("no term of its expression names an architecture")
    opener = _Opener(place, expression)
    refuses = place.gate.sense is Sense.REFUSE
    made = list(opener.shut(expression.root) if refuses else opener.open(expression.root))
    return Opening((*dict.fromkeys(opener.imports), *made), frozenset(opener.admits))
