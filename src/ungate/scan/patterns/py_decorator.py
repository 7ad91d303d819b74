"""A decorator lists the capabilities that the decorated function is for.

::

    @supported_compute_capability([89, 90, 100, 103, 120, 121])
    def _cudnn_bmm_fp8_requirement(…):

    gemm_base.py:2985  _cudnn_bmm_fp8_requirement  passes sm_89 sm_90 sm_100 sm_103 sm_120 sm_121

Any decorator counts whose name speaks of capabilities, archs or SMs and that is given a list of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.scan.patterns.py_version_list import members
from ungate.source.condition import Known
from ungate.source.matcher import matcher
from ungate.source.python.file import PythonFile

__all__ = ["SAMPLES", "find"]

_MEANS = re.compile(r"capabilit|(?:^|_)(?:archs?|ccs?|sms?|cuda)(?:_|$)|requires?_sm|sm_version", re.I)
_TEXT = matcher(r"(?m)^[ \t]*@[\w.]*(?:capabilit|arch|ccs?\b|sms?\b|_sm|sm_|cuda)[\w.]*\(", fold=True)


@pattern("py-decorator", kind="decorator", language="python", rank=10)
def find(file: PythonFile) -> Iterator[Draft]:
    """Every decorator with a list of capabilities."""
    for node, scope, unit in file.walk(_TEXT, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for each in node.decorator_list:
            if not isinstance(each, ast.Call):
                continue
            name = each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")
            if not _MEANS.search(name):
                continue
            for value in (*each.args, *(keyword.value for keyword in each.keywords)):
                listed = members(value, majors=False)
                if listed is None:
                    continue
                form, archs = listed
                span = file.module.span(value, value, unit.shift)
                text = " ".join(file.module.text(span).split())
                yield Draft(
                    line=each.lineno + unit.shift,
                    end_line=(each.end_lineno or each.lineno) + unit.shift,
                    condition=Known(archs, text),
                    text=f"{name}({text})",
                    form=form,
                    span=span,
                    symbol=".".join(filter(None, (scope.qualname, node.name))),
                    names=(name,),
                )
                break


SAMPLES = (
    Nothing("no capabilities", '@parametrize("size", [90, 100])\ndef f():\n    pass\n'),
    Nothing("in a docstring", 'def f():\n    """\n    @supported_compute_capability([90])\n    """\n'),
    Finds(
        "capabilities as integers",
        "@supported_compute_capability([90, 100])\n@other\ndef f():\n    pass\n",
        {1: (90, 100)},
        {1: "[90, 100]"},
    ),
)
