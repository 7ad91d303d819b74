"""A choice between target names that is handed to a compiler.

::

    cute.GPUArch("sm_121a" if torch.cuda.get_device_capability() == (12, 1) else "sm_120a")

    gdn_kernels/delta_rule_sm120.py:2118  passes sm_120 sm_121

An arch passes where the name that is chosen for it is its own. The rank is before that of a comparison: the test in the
choice decides nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ungate.model import KNOWN_ARCHS, Form
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.scan.patterns.py_gencode import target
from ungate.source.condition import Known
from ungate.source.matcher import matcher
from ungate.source.python.capability import archs_of_name
from ungate.source.python.file import PythonFile
from ungate.source.python.values import ByArch

__all__ = ["SAMPLES", "find"]

_TEXT = matcher("[\"']sm_?[0-9]{2,3}[af]?[\"'] if ")


@pattern("py-target", kind="gencode-flag", language="python", rank=15)
def find(file: PythonFile) -> Iterator[Draft]:
    """Arguments that are a choice between strings, at least one of which names a target."""
    for node, scope, unit in file.walk(_TEXT, ast.Call):
        assert isinstance(node, ast.Call)
        for each in (*node.args, *(keyword.value for keyword in node.keywords)):
            if not (isinstance(each, ast.IfExp) and any(target(part) is not None for part in ast.walk(each))):
                continue
            value = file.evaluator.fresh(each, file.frame(each, scope, unit))
            if not isinstance(value, ByArch):
                continue
            pairs = zip(KNOWN_ARCHS, value.items, strict=True)
            own = {arch for arch, text in pairs if isinstance(text, str) and arch in (archs_of_name(text) or ())}
            span = file.module.span(each, each, unit.shift)
            text = " ".join(file.module.text(span).split())
            yield Draft(
                line=each.lineno + unit.shift,
                end_line=(each.end_lineno or each.lineno) + unit.shift,
                condition=Known(frozenset(own), text),
                text=text,
                form=Form.ARCH_NAME,
                span=span,
                symbol=scope.qualname,
            )


_CHOICE = (
    "import torch\ncompile(\n    kernel,\n"
    '    "sm_121a" if torch.cuda.is_available() and torch.cuda.get_device_capability() == (12, 1)\n'
    '    else "sm_120a",\n)\n'
)

SAMPLES = (
    Nothing("a choice by a flag", 'compile(kernel, "sm_120a" if fast else "sm_90a")\n'),
    Nothing("a choice between other strings", 'compile(kernel, "sm_90" if x else "y")\n'),
    Finds("a choice by the device", _CHOICE, {4: (120, 121)}),
)
