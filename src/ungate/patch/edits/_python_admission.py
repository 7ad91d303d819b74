"""What to write after ``or``: Python text that is true for the wanted archs.

In this order: what the expression itself compares, compared with the target; its own call with the target's number;
the package's own predicate; else torch's capability of the current device.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from ungate.patch.edits import Place, Replacement, Unopenable
from ungate.patch.edits._imports import Module
from ungate.patch.edits._predicates import Admission, own
from ungate.patch.edits._pyexpr import Expression
from ungate.patch.edits._units import Unit, covered, spelled, unit_of

__all__ = ["admission", "by_torch", "constants", "subject"]


def constants(node: ast.expr) -> tuple[int | tuple[int, ...], ...]:
    """The integers or (major, minor) pairs of a constant or of a display of constants; empty for anything else."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return ()
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) and v < 20 for v in value):
        # ambiguous with two majors; the caller knows from the operator
        return (value,)
    values = tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)
    pairs = all(isinstance(v, tuple) and len(v) == 2 and all(isinstance(w, int) for w in v) for v in values)
    numbers = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    return values if pairs or numbers else ()


def subject(term: ast.expr) -> tuple[ast.expr, Unit | None] | None:
    """The variable side of a comparison with arch constants, and the unit (None: (major, minor) pairs)."""
    if not isinstance(term, ast.Compare):
        return None
    sides = [term.left, *term.comparators]
    variables = [side for side in sides if not constants(side)]
    if len(variables) != 1 or re.search(r"minor$|\[1\]$", ast.unparse(variables[0])):
        return None
    variable = variables[0]
    if any(isinstance(node, ast.NamedExpr) for node in ast.walk(variable)):
        return None
    found: list[int | tuple[int, ...]] = []
    for op, side in zip(term.ops, term.comparators, strict=True):
        other = term.left if side is variable else side
        values = constants(other)
        if isinstance(op, ast.In | ast.NotIn) and len(values) == 1 and isinstance(values[0], tuple):
            values = values[0]
        found += values
    numbers = [value for value in found if isinstance(value, int)]
    if numbers and len(numbers) == len(found):
        unit = unit_of(numbers)
        return (variable, unit) if unit else None
    return (variable, None) if found and not numbers else None


def _by_subject(place: Place, expression: Expression, terms: Sequence[ast.expr]) -> Admission | None:
    for term in terms:
        found = subject(term)
        if found is None:
            continue
        variable, unit = found
        text = expression.text(variable)
        if not isinstance(variable, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            text = b"(" + text + b")"
        if unit is None:
            values = [b"(%d, %d)" % divmod(arch, 10) for arch in sorted(place.missing)]
        else:
            values = [b"%d" % value for value in spelled(place.missing, unit)]
        test = b" == " + values[0] if len(values) == 1 else b" in (" + b", ".join(values) + b")"
        archs = covered(place.missing, unit) if unit else place.missing
        return Admission(text + test, archs)
    return None


def _by_argument(place: Place, expression: Expression, terms: Sequence[ast.expr]) -> Admission | None:
    """``platform.is_device_capability(100)`` becomes ``platform.is_device_capability(120)``; only exact tests."""
    for term in terms:
        if not (isinstance(term, ast.Call) and len(term.args) == 1 and not term.keywords):
            continue
        name = term.func.attr if isinstance(term.func, ast.Attribute) else getattr(term.func, "id", "")
        values = constants(term.args[0])
        if len(values) != 1 or not name.startswith("is_"):
            continue
        value = values[0]
        family = "family" in name
        if isinstance(value, tuple):
            unit: Unit | None = None
        else:
            unit = unit_of((value,))
            if unit is None:
                continue
        archs = covered(place.missing, Unit.MAJOR) if family else place.missing
        written = sorted({arch // 10 * 10 for arch in archs}) if family else sorted(archs)
        calls = []
        for arch in written:
            new = b"(%d, %d)" % divmod(arch, 10) if unit is None else b"%d" % spelled((arch,), unit)[0]
            calls.append(expression.text(term.func) + b"(" + new + b")")
        return Admission(b" or ".join(calls), archs)
    return None


def _requires_torch(place: Place) -> bool:
    """Whether any distribution beside the file declares torch: then the file can import it."""
    for info in place.root.glob("*.dist-info"):
        metadata = info / "METADATA"
        if metadata.is_file() and re.search(rb"(?m)^Requires-Dist: torch\b", metadata.read_bytes()):
            tops = info / "top_level.txt"
            record = info / "RECORD"
            top = Path(place.gate.file).parts[0].encode()
            if (tops.is_file() and top in tops.read_bytes().split()) or (
                record.is_file() and re.search(rb"(?m)^" + re.escape(top) + rb"[/,]", record.read_bytes())
            ):
                return True
    return False


def by_torch(place: Place, module: Module) -> Admission:
    """The capability of the current device; Unopenable where the file cannot be sure of torch."""
    imports: tuple[Replacement, ...] = ()
    if "torch" not in module.bound():
        if not _requires_torch(place):
            raise Unopenable(
                "the file has no predicate for the target, compares no number, and cannot be sure of torch"
            )
        imports = (module.add_import("torch"),)
    capability = b"torch.cuda.get_device_capability()"
    pairs = [b"(%d, %d)" % divmod(arch, 10) for arch in sorted(place.missing)]
    majors = {arch // 10 for arch in place.missing}
    if covered(place.missing, Unit.MAJOR) == place.missing and len(majors) == 1:
        test = capability + b"[0] == %d" % majors.pop()
    else:
        test = capability + (b" == " + pairs[0] if len(pairs) == 1 else b" in (" + b", ".join(pairs) + b")")
    # ROCm builds answer get_device_capability() too, with numbers of their own
    text = b"(torch.version.hip is None and torch.cuda.is_available() and " + test + b")"
    return Admission(text, place.missing, imports)


def admission(place: Place, expression: Expression, terms: Sequence[ast.expr]) -> Admission:
    """Text for the wanted archs; Unopenable where the file offers no way to ask for the architecture."""
    if found := _by_subject(place, expression, terms) or _by_argument(place, expression, terms):
        return found
    module = Module.read(place.content)
    return own(place, module, terms) or by_torch(place, module)
