"""Write the lab's two distributions into a folder, as an installer would."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ungate.errors import Refusal

__all__ = ["DISTRIBUTIONS", "Lab", "command", "environment", "install"]

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class _Distribution:
    name: str
    top: str
    source: Path
    summary: str
    requires: tuple[str, ...]
    scripts: tuple[str, ...]

    @property
    def version(self) -> str:
        text = (self.source / "__init__.py").read_text()
        match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
        assert match, f"{self.source} states no version"
        return match[1]

    @property
    def info(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}.dist-info"


_KERNELS = _Distribution(
    "lab-kernels",
    "labkernels",
    _HERE / "kernels" / "labkernels",
    "Communication kernels that are compiled when they are first used",
    ("numpy>=2.0",),
    ("lab-kernels-build = labkernels.build:main",),
)
_ENGINE = _Distribution(
    "lab-engine",
    "labengine",
    _HERE / "engine" / "labengine",
    "A small tensor-parallel completion server on CPU processes",
    (f"lab-kernels=={_KERNELS.version}", "numpy>=2.0", "aiohttp>=3.11"),
    ("lab-engine = labengine.launch:main",),
)

DISTRIBUTIONS: tuple[str, ...] = (_KERNELS.name, _ENGINE.name)
"""The names of the two distributions, the library first."""


@dataclass(frozen=True, slots=True)
class Lab:
    """An installed lab: the folder of its packages, and the interpreter that has numpy and aiohttp."""

    site: Path
    python: Path


def install(folder: Path, python: Path | str = sys.executable) -> Lab:
    """Write both distributions into ``folder`` (made if need be) with dist-info and RECORD.

    A lab that is already there is replaced. Refusal when the folder holds anything else. The interpreter
    is only noted down: it must have numpy and aiohttp, as ungate's own has.
    """
    folder = folder.absolute()
    ours = re.compile(r"(lab_kernels|lab_engine)-.*\.dist-info|labkernels|labengine|\.lab\..*|__pycache__")
    for path in folder.iterdir() if folder.exists() else ():
        if not ours.fullmatch(path.name):
            raise Refusal(
                f"The folder {folder} holds {path.name}, which is not the lab's, so the lab is not installed there.",
                "Name an empty or a new folder.",
            )
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".lab.", dir=folder))
    try:
        for distribution in (_KERNELS, _ENGINE):
            _write(distribution, work)
        for path in folder.iterdir():
            if path != work:
                shutil.rmtree(path)
        for path in sorted(work.iterdir()):
            path.rename(folder / path.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Lab(folder, Path(python))


def command(
    lab: Lab,
    *,
    port: int,
    tp: int = 2,
    fused: bool = False,
    module: str = "labengine.launch",
    extra: Sequence[str] = (),
) -> tuple[str, ...]:
    """The server's argument list; run it with :func:`environment`."""
    flag = ("--enable-fused-allreduce",) if fused else ()
    return (str(lab.python), "-m", module, "--port", str(port), "--tp", str(tp), *flag, *extra)


def environment(
    lab: Lab, *, arch: str = "12.0", cache: Path | None = None, overlay: Path | None = None
) -> Mapping[str, str]:
    """The variables that the server needs on top of the process's own.

    ``overlay`` is a folder of patched copies that comes before the installed packages, ``cache`` the
    kernel cache of this arm.
    """
    variables = {"PYTHONPATH": ":".join(str(path) for path in (overlay, lab.site) if path), "LAB_CUDA_ARCH_LIST": arch}
    if cache:
        variables["LAB_KERNELS_CACHE"] = str(cache)
    return variables


def _write(distribution: _Distribution, site: Path) -> None:
    contents = {f"{distribution.top}/{name}": data for name, data in _files(distribution.source)}
    contents.update({f"{distribution.info}/{name}": data.encode() for name, data in _information(distribution)})
    record = f"{distribution.info}/RECORD"
    rows = [(name, _hash(data), str(len(data))) for name, data in sorted(contents.items())]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
    contents[record] = text.getvalue().encode()
    for name, data in contents.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _files(source: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(source.rglob("*")):
        if path.suffix in {".py", ".cpp", ".h"}:
            yield path.relative_to(source).as_posix(), path.read_bytes()


def _information(distribution: _Distribution) -> Iterator[tuple[str, str]]:
    requires = "".join(f"Requires-Dist: {requirement}\n" for requirement in distribution.requires)
    yield (
        "METADATA",
        f"Metadata-Version: 2.1\nName: {distribution.name}\nVersion: {distribution.version}\n"
        f"Summary: {distribution.summary}\nLicense: Apache-2.0\nRequires-Python: >=3.11\n{requires}",
    )
    yield "WHEEL", "Wheel-Version: 1.0\nGenerator: ungate\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    yield "INSTALLER", "ungate\n"
    yield "top_level.txt", f"{distribution.top}\n"
    yield "entry_points.txt", "[console_scripts]\n" + "".join(f"{script}\n" for script in distribution.scripts)


def _hash(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
