"""A pushed series says so: one line, once a process, when one of its packages is first imported.

Files of ungate's own lie beside the packages while a series is pushed: a module that waits for the first import of a
patched package, and what makes Python import that module when it starts. In a site-packages folder this is a ``.pth``
file. Python reads no ``.pth`` file in a folder that is only on PYTHONPATH: there it is a ``sitecustomize.py``, which
hands on to the one that it hides; where somebody else's ``sitecustomize.py`` lies in the folder, the series is silent,
and ``ungate patch status`` shows it. No file that a package's RECORD lists is touched for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ungate.errors import shell
from ungate.patch.state import Applied
from ungate.plain import counted

__all__ = ["FILES", "contents", "foreign", "is_site_folder"]

FILES = ("ungate_pushed.pth", "_ungate_pushed.py", "sitecustomize.py")

_MODULE = '''"""Written by ungate while a series is pushed; `ungate patch pop` removes it."""

import sys

_LINES = {lines!r}


class _Announce:
    """Passes every import on, and speaks at the first one of a patched package."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        line = _LINES.get(name)
        if line:
            for top in [top for top, other in _LINES.items() if other == line]:
                del _LINES[top]
            try:
                sys.stderr.write(line + "\\n")
            except Exception:
                pass
        return None


sys.meta_path.insert(0, _Announce)
'''

_CUSTOMIZE = b'''"""Written by ungate while a series is pushed; `ungate patch pop` removes it."""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

import _ungate_pushed


def _hidden():
    """The sitecustomize that Python would have found without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [place for place in sys.path if os.path.abspath(place) != here])
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_hidden()
'''


def contents(root: Path, stack: Sequence[Applied]) -> dict[str, bytes | None]:
    """What the files hold for this stack, None where one must not be; a file of somebody else's is left out."""
    lines: dict[str, str] = {}
    for applied in stack:
        tops = sorted({file.split("/", 1)[0].removesuffix(".py") for file in applied.files})
        packages = ", ".join(f"{name} {version}" for name, version in sorted(applied.packages.items()))
        many = counted(len(applied.files), "file")
        line = (
            f"ungate: {packages} is patched by the series '{applied.name}' "
            f"({many}, for {applied.target}); to undo: ungate patch pop --site {shell(root)}"
        )
        for top in tops:
            lines[top] = f"{lines[top]}\n{line}" if top in lines and lines[top] != line else line
    found: dict[str, bytes | None] = dict.fromkeys(FILES)
    if lines:
        found[FILES[1]] = _MODULE.format(lines=lines).encode()
        found[FILES[0] if is_site_folder(root) else FILES[2]] = (
            b"import _ungate_pushed\n" if is_site_folder(root) else _CUSTOMIZE
        )
    if not _ours(root / FILES[2]):
        del found[FILES[2]]
    return found


def _ours(customize: Path) -> bool:
    """Whether ungate may write the file: there is none, or it wrote it."""
    try:
        return customize.read_bytes() == _CUSTOMIZE
    except FileNotFoundError:
        return True
    except OSError:
        return False


def foreign(root: Path) -> str:
    """The first file of an announcement that stands in the folder; empty where there is none."""
    return next((name for name in FILES[:2] if (root / name).exists()), "")


def is_site_folder(root: Path) -> bool:
    """Whether Python reads ``.pth`` files in the folder by itself."""
    return root.name in {"site-packages", "dist-packages"}
