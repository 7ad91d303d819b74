"""What an integer expression of a C++ file comes to, from the constants that the file itself defines."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from ungate.source.cuda.comments import blank

__all__ = ["Constants"]

_DEFINED = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+(?P<text>[^\n\\]+)$"
    r"|\b(?:constexpr|const|int|auto|size_t|uint32_t|unsigned)\s+(?:static\s+|const\s+|constexpr\s+|unsigned\s+|std::|inline\s+)*"
    r"(?:(?:int|auto|size_t|u?int\d+_t|unsigned|long)\s+)*(?P<name>\w+)\s*=\s*(?P<value>[^;={}]+);",
    re.MULTILINE,
)
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlLzZ]+\b")
_CAST = re.compile(r"\bstatic_cast\s*<[^<>]*>|\(\s*(?:int|size_t|std::size_t|u?int\d+_t|unsigned(?: int| long)*)\s*\)")
_SIZEOF = re.compile(r"\bsizeof\s*\(\s*([\w: ]+?)\s*\)")
_SIZES: Mapping[str, int] = {
    **dict.fromkeys(("char", "uint8_t", "int8_t", "bool", "__nv_fp8_e4m3", "__nv_fp8_e5m2"), 1),
    **dict.fromkeys(("half", "__half", "nv_half", "__nv_bfloat16", "nv_bfloat16", "bfloat16_t", "half_t", "short"), 2),
    **dict.fromkeys(("uint16_t", "int16_t"), 2),
    **dict.fromkeys(("int", "float", "unsigned", "uint32_t", "int32_t", "half2"), 4),
    **dict.fromkeys(("double", "int64_t", "uint64_t", "size_t", "float2"), 8),
    **dict.fromkeys(("int4", "uint4", "float4"), 16),
}
_DEEPEST = 12
_LARGEST = 1 << 40
_BINARY: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}


class Constants:
    """The constants of one file. A name that is given two values, or none that can be worked out, is unknown."""

    def __init__(self, text: str) -> None:
        self._texts: dict[str, set[str]] = {}
        for found in _DEFINED.finditer(blank(text)):
            name = found["macro"] or found["name"]
            self._texts.setdefault(name, set()).add(" ".join((found["text"] or found["value"]).split()))

    def value(self, expression: str) -> int | None:
        """The value of ``expression``, None where it hangs on anything that the file does not settle."""
        return self._value(expression, _DEEPEST)

    def _value(self, expression: str, depth: int) -> int | None:
        text = _SIZEOF.sub(lambda found: str(_SIZES.get(found[1].split("::")[-1], found[0])), expression)
        text = _SUFFIX.sub(r"\1", _CAST.sub("", text)).strip()
        try:
            tree = ast.parse(text, mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
        return self._of(tree.body, depth)

    def _of(self, node: ast.expr, depth: int) -> int | None:
        match node:
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if depth > 0 and len(self._texts.get(name, ())) == 1:
                return self._value(next(iter(self._texts[name])), depth - 1)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                value = self._of(inner, depth)
                return None if value is None else -value
            case ast.BinOp(left=left, op=sign, right=right):
                return self._applied(sign, self._of(left, depth), self._of(right, depth))
            case _:
                return None

    @staticmethod
    def _applied(sign: ast.operator, left: int | None, right: int | None) -> int | None:
        if left is None or right is None:
            return None
        if isinstance(sign, ast.LShift | ast.RShift):
            if not 0 <= right < 64:
                return None
            return left << right if isinstance(sign, ast.LShift) else left >> right
        apply = _BINARY.get(type(sign))
        if apply is None or (right == 0 and sign.__class__ in {ast.Div, ast.FloorDiv, ast.Mod}):
            return None
        value = apply(left, right)
        return value if abs(value) < _LARGEST else None
