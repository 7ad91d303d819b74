"""Is what was edited still what it was: Python that compiles and imports, headers that every pass can preprocess?"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ungate.host.children import run
from ungate.model import KNOWN_ARCHS, Finding, Series

__all__ = ["compiles", "imports", "preprocesses"]

_HEADERS = frozenset({".cuh", ".cu", ".h", ".hpp", ".cpp", ".cc", ".inl", ".hxx"})
_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include(?:_next)?\b[^\n]*", re.MULTILINE)
_DEADLINE_S = 60.0
_MARK = "imported from: "
_WHERE = "import sys, {module}; print('\\n" + _MARK + "' + str(sys.modules['{module}'].__file__))"


def _danger(file: str, what: str, evidence: str) -> Finding:
    advice = "Do not use this series; report it with the output of: ungate patch diff --json"
    return Finding("patch-proof", "danger", what, advice, evidence=evidence[-800:], file=file)


def compiles(series: Series, root: Path) -> tuple[Finding, ...]:
    """A finding for each edited Python file below ``root`` that is no longer Python."""
    found = []
    for file in series.after:
        if file.endswith(".py"):
            try:
                compile((root / file).read_bytes(), file, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                found.append(_danger(file, f"{file} is no longer Python after the edit.", str(error)))
    return tuple(found)


def preprocesses(series: Series, root: Path, compiler: str | None = None) -> tuple[Finding, ...]:
    """A finding for each edited C++ or CUDA file that the preprocessor cannot read in the host or any device pass.

    Its includes are left out: what they bring was not edited, and needs a toolkit. A note where there is no compiler.
    """
    files = [file for file in series.after if Path(file).suffix in _HEADERS]
    compiler = compiler or next(filter(None, map(shutil.which, ("g++", "gcc", "c++", "clang++"))), None)
    if not files:
        return ()
    if compiler is None:
        what = "No C++ compiler was found, so the edited headers were not preprocessed."
        return (Finding("patch-proof", "note", what, "Install one: apt-get install g++", confidence="high"),)
    passes: list[int | None] = [None, *KNOWN_ARCHS]
    points = [(file, arch) for file in files for arch in passes]
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda point: _pass(compiler, root / point[0], point[0], point[1]), points)
        return tuple(finding for finding in results if finding)


def _pass(compiler: str, path: Path, file: str, arch: int | None) -> Finding | None:
    source = _INCLUDE.sub(b"", path.read_bytes())
    device = [] if arch is None else [f"-D__CUDA_ARCH__={arch * 10}"]
    command = [compiler, "-E", "-P", "-x", "c++", "-w", *device, "-o", "/dev/null", "-"]
    done = subprocess.run(command, input=source, capture_output=True, timeout=_DEADLINE_S, check=False)
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace")
    # an #error that the source itself reaches for this arch is its answer, not a fault of the edit
    if re.search(r"error: #error", said) and not re.search(r"error: (?!#error)", said):
        return None
    name = "the host pass" if arch is None else f"sm_{arch}"
    return _danger(file, f"{file} cannot be preprocessed for {name} after the edit.", said)


def imports(
    series: Series,
    python: Path,
    environment: Mapping[str, str],
    baseline: Mapping[str, str],
    root: Path | None = None,
) -> tuple[Finding, ...]:
    """Import each edited module in a process of its own, with the overlay and without.

    A finding where only the edited one fails, and where Python finds it elsewhere than below ``root``: an editable
    installation may put a finder of its own before the path. A note where both fail: then nothing was learnt.
    """
    found: list[Finding] = []
    for file in series.after:
        if not file.endswith(".py"):
            continue
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        argv: Sequence[str] = (str(python), "-c", _WHERE.format(module=module))
        edited = run(argv, deadline_s=_DEADLINE_S * 3, env=environment)
        if edited.code == 0:
            place = next((line for line in edited.output.splitlines()[::-1] if line.startswith(_MARK)), "")[
                len(_MARK) :
            ]
            if root is not None and not Path(place).resolve().is_relative_to(root.resolve()):
                found.append(_danger(file, f"{module} is imported from {place}, not from the edited copy.", place))
            continue
        plain = run(argv, deadline_s=_DEADLINE_S * 3, env=baseline)
        if plain.code == 0:
            found.append(_danger(file, f"{module} can no longer be imported after the edit.", edited.output))
        else:
            last = (plain.output.strip().splitlines() or ["no output"])[-1]
            what = f"{module} cannot be imported here, edited or not ({last}), so its import proves nothing."
            advice = "Name the serving environment's interpreter: --python PATH"
            found.append(Finding("patch-proof", "note", what, advice, file=file))
    return tuple(found)
