"""Flags for the CUDA compiler that name their targets, and the uses of a list of such flags.

::

    sm90a_nvcc_flags = ["-gencode=arch=compute_90a,code=sm_90a", …]
    return gen_fp4_quantization_module(sm90a_nvcc_flags, "90")

    jit/core.py:126            passes sm_90
    jit/fp4_quantization.py:72 passes sm_90

``sm_90a`` code runs on that one architecture, ``sm_100f`` on 100 and 103. A flag that is formatted from a variable
names no target and is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from ungate.model import Form
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import Known
from ungate.source.matcher import matcher
from ungate.source.python.capability import archs_of_name
from ungate.source.python.file import PythonFile
from ungate.source.python.flags import flag_archs
from ungate.source.python.module import Unit
from ungate.source.python.scopes import Scope

__all__ = ["SAMPLES", "find", "target"]

_LOOK_UP = re.compile(
    r"^_*(?:get|max|min|num|alloc|dealloc|free|retrieve|relinquish|query)_"
    r"|_(?:cols|columns|capacity|size|bytes|count|limit|name)$",
    re.I,
)
_TEXT = matcher("(?:sm|compute)_?[0-9]{2,3}|nvcc_|flags", fold=True)
_KINDS = (
    *(ast.Expr, ast.Raise, ast.Assign, ast.AnnAssign, ast.AugAssign),
    *(ast.List, ast.Tuple, ast.Constant, ast.Name, ast.Call),
)


def _literal(node: ast.AST) -> frozenset[int] | None:
    """The targets that a string constant names as a compiler flag."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return flag_archs([node.value])
    return None


def _display(node: ast.expr) -> frozenset[int] | None:
    """The targets of the flags in a display, also where another list is added to it."""
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            found = [archs for each in elements if (archs := _literal(each)) is not None]
            return frozenset().union(*found) if found else None
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            sides = [archs for each in (left, right) if (archs := _display(each)) is not None]
            return frozenset().union(*sides) if sides else None
        case _:
            return None


def target(node: ast.AST) -> frozenset[int] | None:
    """The target that a string names alone (``"sm_120a"``), as a compiler is told it."""
    match node:
        case ast.Constant(value=str() as text) if re.match(r"sm_?\d{2,3}[af]?$", text):
            return archs_of_name(text) if "_" in text or text[-1] in "af" else None
        case _:
            return None


def _draft(
    file: PythonFile, whole: ast.AST, node: ast.expr, archs: frozenset[int], unit: Unit, scope: Scope, role: str
) -> Draft:
    span = file.module.span(node, node, unit.shift)
    text = " ".join(file.module.text(span).split())
    return Draft(
        line=whole.lineno + unit.shift,  # type: ignore[attr-defined]
        end_line=(node.end_lineno or node.lineno) + unit.shift,
        condition=Known(archs, text),
        text=text if len(text) < 160 else text[:159] + "…",
        role=role,
        form=Form.STRING_LIST if isinstance(node, ast.List | ast.Tuple) else Form.FIXED,
        span=span,
        symbol=scope.qualname,
        names=(node.id,) if isinstance(node, ast.Name) else (),
        note="" if isinstance(node, ast.List | ast.Tuple) else "the list of flags itself stands elsewhere",
    )


def _looks_up(function: ast.expr) -> bool:
    """Whether a call reads a property of the named arch, or takes memory of its kind: nothing is compiled for it."""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return _LOOK_UP.search(name) is not None


@pattern("py-gencode", kind="gencode-flag", language="python", rank=40)
def find(file: PythonFile) -> Iterator[Draft]:
    """Lists of flags with fixed targets, the uses of such lists by name, and target names handed to a compiler."""
    done: set[int] = set()
    for node, scope, unit in file.walk(_TEXT, *_KINDS, naming=True):
        match node:
            case ast.Expr(value=ast.Constant() as told):  # a docstring tells of flags, it is none
                done.add(id(told))
            case ast.Raise():  # so does a message
                done.update(id(each) for each in ast.walk(node) if isinstance(each, ast.Constant))
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) | ast.AugAssign(value=value):
                archs = _display(value)
                if archs is not None:
                    done.update(id(each) for each in ast.walk(value))
                    list_node = next(each for each in ast.walk(value) if isinstance(each, ast.List | ast.Tuple))
                    yield _draft(file, node, list_node, archs, unit, scope, "define")
            case ast.List() | ast.Tuple() if id(node) not in done and (archs := _display(node)) is not None:
                done.update(id(each) for each in ast.walk(node))
                yield _draft(file, node, node, archs, unit, scope, "define")
            case ast.Constant() if id(node) not in done and (archs := _literal(node)) is not None:
                yield _draft(file, node, node, archs, unit, scope, "test")
            case ast.Name(ctx=ast.Load()) if id(node) not in done and (archs := file.flags(node, scope)) is not None:
                yield _draft(file, node, node, archs, unit, scope, "use")
            case ast.Call(func=function, args=args, keywords=keywords) if not _looks_up(function):
                for each in (*args, *(keyword.value for keyword in keywords)):
                    if (named := target(each)) is not None:
                        draft = _draft(file, each, each, named, unit, scope, "test")
                        yield replace(draft, form=Form.ARCH_NAME, note="")
            case _:
                pass


_FLAGS = 'sm90a_nvcc_flags = ["-gencode=arch=compute_90a,code=sm_90a", "-O3"]\n'

SAMPLES = (
    Nothing("a target that is not fixed", 'flags = [f"-gencode=arch=compute_{arch},code=sm_{arch}"]\n'),
    Nothing("a docstring", 'def target(name):\n    """Turns ``-arch=sm_90`` into a target."""\n    return name\n'),
    Nothing("a message", 'raise ValueError("options must look like -arch=sm_90")\n'),
    Nothing("flags without a target", 'nvcc_flags = ["-O3", "-use_fast_math"]\nbuild(nvcc_flags)\n'),
    Nothing("the name of a module with an arch in it", 'load("fused_moe_sm100")\n'),
    Nothing("a property of an arch", 'columns = cute.arch.get_max_tmem_alloc_cols("sm_100")\n'),
    Nothing("memory of an arch's kind", 'cute.arch.alloc_tmem(128, held, arch="sm_100")\n'),
    Finds("options of a DSL's compiler", 'f = cute.compile(k, options="--gpu-arch sm_120a")\n', {1: (120,)}),
    Finds("a list of flags", _FLAGS, {1: (90,)}, {1: '["-gencode=arch=compute_90a,code=sm_90a", "-O3"]'}),
    Finds(
        "the use of a list", _FLAGS + "\ndef gen():\n    return build(sm90a_nvcc_flags + [])\n", {1: (90,), 4: (90,)}
    ),
    Finds("a family", 'f = ["-gencode=arch=compute_100f,code=sm_100f"]\n', {1: (100, 103)}),
    Finds("a target for a DSL", 'compile(kernel, cute.GPUArch("sm_120a"))\n', {1: (120,)}, {1: '"sm_120a"'}),
)
