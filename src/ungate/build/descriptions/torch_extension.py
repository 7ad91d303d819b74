"""PyTorch's extensions: a function that calls ``torch.utils.cpp_extension.load``, or a ``CUDAExtension`` in a setup.py.

    return load(name="x", sources=["csrc/x.cu"], extra_cuda_cflags=["-O3", "-gencode", "arch=compute_90a,code=sm_90a"])

    setup(ext_modules=[CUDAExtension(name="x_cuda", sources=["csrc/x.cu"], extra_compile_args={"nvcc": ["-O3"]})])

The first is named ``package.module:function``, the second ``setup:x_cuda``. A function of the package's own that is
given a name and sources is taken for one that hands them on to PyTorch. What PyTorch adds is read from the
environment's own ``torch/utils/cpp_extension.py``; its headers are needed, and it is not run.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ungate.build import gencode, machine
from ungate.build.descriptions import Wanted
from ungate.build.following import Dotted, File, Text
from ungate.build.following.tolerant import run
from ungate.build.handing import handed
from ungate.build.unit import Generated, Module
from ungate.errors import Refusal
from ungate.host.packages import Package

__all__ = ["describe"]

_TORCH = "torch.utils.cpp_extension"
_NAMED = {"load", "load_inline"}
_DEVICE = (".cu", ".cuh")


class _Asked(Exception):
    """What PyTorch is asked to build, caught where it would begin."""

    def __init__(self, **named: Any) -> None:
        self.named = named


def describe(wanted: Wanted) -> Module | None:
    """The extension; None where the module named has no call that builds one."""
    if not wanted.function:
        return None
    torch = wanted.neighbour("torch")
    text = Text(
        (wanted.package.root,),
        machine.facts(wanted.target, lambda name: wanted.package if name in wanted.package.tops else None)
        | {f"{_TORCH}.CUDA_HOME": "/usr/local/cuda", "setuptools.find_packages": lambda *_, **__: []},
        machine.functions(),
    )
    file = text.file(wanted.dotted)
    if file is None:
        return None
    if wanted.dotted == "setup":
        found, line, notes = _extension(file, wanted)
    elif wanted.function and (node := _function(file, wanted.function)) and (calls := tuple(_builders(node))):
        found, line, notes = _loaded(file, wanted, calls), calls[0].lineno, ()
    else:
        return None
    if torch is None:
        raise Refusal(
            f"The extension '{wanted.function}' of {wanted.package.name} includes PyTorch's headers, and torch is not "
            "in that environment.",
            "Name the environment that serves: --python PATH",
        )
    return _module(wanted, file, line, found, torch, notes)


def _function(file: File, name: str) -> ast.FunctionDef | None:
    found = (node for node in file.tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    return next(found, None)


def _builders(node: ast.AST) -> Iterator[ast.Call]:
    """Calls that name sources, by keyword as PyTorch's own ``load`` does."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            words = {keyword.arg for keyword in call.keywords}
            if "name" in words and words & {"sources", "cuda_sources"}:
                yield call


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _catch(**named: Any) -> Any:
    raise _Asked(**named)


def _loaded(file: File, wanted: Wanted, calls: Sequence[ast.Call]) -> Mapping[str, Any]:
    file.text.instead |= {_last(call.func): _catch for call in calls}
    file.text.facts |= {f"{_TORCH}.{name}": _catch for name in _NAMED}
    asked = handed(file, wanted, _Asked)
    if asked is None:
        raise Refusal(
            f"'{wanted.function}' in {wanted.dotted} returns before it builds anything.",
            f"Read it: less +{calls[0].lineno} {file.path}",
        )
    return asked.named


def _extension(file: File, wanted: Wanted) -> tuple[Mapping[str, Any], int, tuple[str, ...]]:
    """The ``CUDAExtension`` of that name, after everything in the setup.py that can be followed."""
    made: list[dict[str, Any]] = []

    def keep(name: str = "", sources: Sequence[Any] = (), **named: Any) -> Dotted:
        made.append({"name": name, "sources": list(sources)} | named)
        return Dotted(f"extension {name}")

    file.text.instead["CUDAExtension"] = keep
    skipped = run(file)
    chosen = [each for each in made if each["name"].rpartition(".")[2] == wanted.function.rpartition(".")[2]]
    if not chosen:
        names = ", ".join(each["name"] for each in made)
        why = f"; {skipped[-1]}" if skipped and not made else ""
        raise Refusal(
            f"{file.path} makes no CUDAExtension named '{wanted.function}' that can be followed{why}.",
            f"Those that it makes: {names}" if names else f"Read it: grep -n CUDAExtension {file.path}",
        )
    lines = [
        node.lineno
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and _last(node.func) == "CUDAExtension"
    ]
    return chosen[0], lines[0], ()


def _module(
    wanted: Wanted, file: File, line: int, asked: Mapping[str, Any], torch: Package, notes: tuple[str, ...]
) -> Module:
    name = str(asked["name"])
    given = _device_flags(asked)
    if isinstance(given, Dotted):
        notes = (*notes, "its own flags could not be followed")
    own, listed = gencode.apart([] if isinstance(given, Dotted) else given)
    suffix = next((one.suffix for one in listed if one.number == wanted.target.number), "")
    if other := gencode.note(listed, wanted.target):
        notes = (*notes, other)
    base = file.path.parent
    sources = [Path(source) if Path(source).is_absolute() else base / source for source in asked.get("sources", ())]
    inline = asked.get("cuda_sources") or ()
    code = inline if isinstance(inline, str) else "\n".join(inline)
    device = tuple(path.resolve() for path in sources if path.suffix in _DEVICE)
    if not device and not code:
        raise Refusal(
            f"The extension '{name}' of {wanted.package.name} has no CUDA source, so no architecture decides in it.",
            f"Read it: less +{line} {file.path}",
        )
    folders = asked.get("extra_include_paths", asked.get("include_dirs"))
    if isinstance(folders, Dotted):
        notes, folders = (*notes, "its own header folders could not be followed"), ()
    extra = [Path(folder) for folder in folders or ()]
    return Module(
        name=name,
        package=wanted.package.name,
        version=wanted.package.version,
        file=file.path.relative_to(wanted.package.root).as_posix(),
        line=line,
        sources=device,
        includes=(*(folder if folder.is_absolute() else base / folder for folder in extra), *_headers(torch)),
        flags=tuple(_always(torch, name, own)),
        suffix=suffix,
        notes=notes,
        generated=(Generated("cuda.cu", _INLINE + code),) if code else (),
    )


_INLINE = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"  # load_inline puts these first


def _device_flags(asked: Mapping[str, Any]) -> list[str] | Dotted:
    flags = asked.get("extra_cuda_cflags", asked.get("extra_compile_args"))
    flags = flags.get("nvcc") if isinstance(flags, dict) else flags
    return flags if isinstance(flags, Dotted) else [str(flag) for flag in flags or ()]


def _always(torch: Package, name: str, own: Sequence[str]) -> Iterator[str]:
    """What PyTorch adds to every unit: common flags, the module's name, its language standard where none is named."""
    file = Text((torch.root,), {}, {}).file(_TORCH)
    if file is None or not file.has("COMMON_NVCC_FLAGS"):
        raise Refusal(
            f"torch {torch.version} has no COMMON_NVCC_FLAGS in {_TORCH}.",
            f"Look at it: ls {torch.root / 'torch' / 'utils'}",
        )
    yield from file.name("COMMON_NVCC_FLAGS")
    yield f"-DTORCH_EXTENSION_NAME={name.rpartition('.')[2]}"
    yield "-DTORCH_API_INCLUDE_EXTENSION_H"
    yield from own
    if not any(flag.startswith("-std=") for flag in own):
        standards = re.findall(r"-std=c\+\+\d+", file.path.read_text(encoding="utf-8"))
        yield max(standards, default="-std=c++17", key=lambda one: int(one[8:]))


def _headers(torch: Package) -> Iterator[Path]:
    """``cpp_extension.include_paths`` for CUDA, and Python's own."""
    include = torch.root / "torch" / "include"
    yield include
    yield include / "torch" / "csrc" / "api" / "include"
    yield Path(sysconfig.get_path("include"))
