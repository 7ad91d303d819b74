"""Which folders an environment imports packages from."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ungate.errors import Refusal, shell

__all__ = ["Environment", "resolve"]

_DEADLINE_S = 30.0
_SIGN = "ungate-sys-path:"
_QUESTION = f"import json, sys; print({_SIGN!r} + json.dumps([sys.version_info[:2], sys.path]))"


@dataclass(frozen=True, slots=True)
class Environment:
    """``roots`` are the folders packages are imported from, first wins; ``python`` the interpreter, if known."""

    roots: tuple[Path, ...]
    python: Path | None


def resolve(site: Path | None, python: Path | None) -> Environment:
    """The environment that ``--site`` and ``--python`` name; without either, ungate's own.

    With both, the packages are those of the folder and the interpreter is the one that will run them. Refusal
    for a folder that cannot be read or holds no package, and for a file that is no Python interpreter.
    """
    interpreter = _interpreter(python) if python is not None else None
    if site is not None:
        return Environment((_checked_site(site),), interpreter)
    if interpreter is not None:
        return Environment(_ask(interpreter), interpreter)
    script = str(Path(sys.argv[0]).absolute().parent)  # what Python puts first when it runs a script such as ungate's
    return Environment(
        _folders([path for path in sys.path if path != script]), Path(sys.executable) if sys.executable else None
    )


def _folders(paths: list[str]) -> tuple[Path, ...]:
    """Existing folders, without doubles; zip files and the empty entry (the working folder) are left out."""
    return tuple(dict.fromkeys(Path(path) for path in paths if path and Path(path).is_dir()))


def _looks_like_packages(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(
            entry.name.endswith((".dist-info", ".egg-info")) or (folder / entry.name / "__init__.py").exists()
            for entry in entries
        )


def _checked_site(site: Path) -> Path:
    folder = site.expanduser().absolute()
    advice = "Pass a site-packages folder, or one that was filled by: pip install --no-deps --target DIR PACKAGE"
    if not folder.exists():
        raise Refusal(f"The folder {folder} that --site names does not exist.", advice)
    if not folder.is_dir():
        raise Refusal(f"{folder}, which --site names, is a file and not a folder of packages.", advice)
    if not os.access(folder, os.R_OK | os.X_OK):
        raise Refusal(f"The folder {folder} that --site names may not be read.", f"Look at it: ls -ld {shell(folder)}")
    if not _looks_like_packages(folder):
        inside = sorted(folder.glob("lib/python3*/site-packages"))
        if inside:
            raise Refusal(
                f"{folder} is a whole environment; --site names its packages.", f"Pass: --site {shell(inside[0])}"
            )
        raise Refusal(f"The folder {folder} that --site names holds no Python package.", advice)
    return folder


def _interpreter(python: Path) -> Path:
    path = python.expanduser().absolute()  # not resolved: a virtual environment is known by its own link
    advice = "Pass the interpreter of the serving environment, for example: --python /opt/venv/bin/python"
    if not path.exists():
        raise Refusal(f"The interpreter {path} that --python names does not exist.", advice)
    if path.is_dir():
        inside = path / "bin" / "python"
        more = f"Pass: --python {shell(inside)}" if inside.exists() else advice
        raise Refusal(f"{path}, which --python names, is a folder and not an interpreter.", more)
    if not os.access(path, os.X_OK):
        raise Refusal(f"{path}, which --python names, may not be executed.", advice)
    return path


def _ask(python: Path) -> tuple[Path, ...]:
    """Ask the interpreter for ``sys.path``, with what ``site``, ``.pth`` files and PYTHONPATH add to it.

    Not with ``-I``: the server sees PYTHONPATH and the user's site folder, and so must ungate. The
    child runs in the root folder, so that no module of the working folder gets in.
    """
    from ungate.host import children

    try:
        outcome = children.run([python, "-B", "-c", _QUESTION], deadline_s=_DEADLINE_S, cwd=Path("/"))
    except Refusal as refusal:
        raise Refusal(f"{python} is no Python interpreter. {refusal.what}", refusal.next_step) from refusal
    said = [line.partition(_SIGN)[2] for line in outcome.output.splitlines() if _SIGN in line]
    if outcome.timed_out:
        raise Refusal(
            f"{python} did not name its packages within {_DEADLINE_S:.0f} s.",
            f"See what holds it up: {python} -X importtime -c pass",
        )
    try:
        version, paths = json.loads(said[-1])
    except (IndexError, ValueError):
        last = outcome.output.strip().splitlines()
        quote = f" Its last words were '{last[-1]}'." if last else ""
        raise Refusal(
            f"{python} is no Python interpreter: it ended with code {outcome.code} and named no packages.{quote}",
            "Pass the interpreter of the serving environment, for example: --python /opt/venv/bin/python",
        ) from None
    if version[0] < 3:
        raise Refusal(
            f"{python} is Python {version[0]}.{version[1]}.", "Pass a Python 3 interpreter with --python PATH."
        )
    return _folders(paths)
