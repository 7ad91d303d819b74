"""A pushed series says so: one line, once a process, when one of its packages is first imported.

Two files of ungate's own lie beside the packages while a series is pushed: a ``.pth`` file, which Python reads when
it starts, and the module that it imports, which waits for the first import of a patched package. No file that a
package's RECORD lists is touched for it. (Python reads no ``.pth`` file in a folder that is only on PYTHONPATH: a
series pushed there is silent, and ``ungate patch status`` shows it.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ungate.patch.state import Applied

__all__ = ["FILES", "contents", "foreign", "is_site_folder"]

FILES = ("ungate_pushed.pth", "_ungate_pushed.py")

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


def contents(root: Path, stack: Sequence[Applied]) -> dict[str, bytes | None]:
    """What the two files hold for this stack; None where nothing is pushed or Python would not read them."""
    lines: dict[str, str] = {}
    for applied in stack:
        tops = sorted({file.split("/", 1)[0].removesuffix(".py") for file in applied.files})
        packages = ", ".join(f"{name} {version}" for name, version in sorted(applied.packages.items()))
        line = (
            f"ungate: {packages} is patched by the series '{applied.name}' "
            f"({len(applied.files)} files, for {applied.target}); to undo: ungate patch pop --site {root}"
        )
        for top in tops:
            lines[top] = f"{lines[top]}\n{line}" if top in lines and lines[top] != line else line
    if not lines or not is_site_folder(root):
        return dict.fromkeys(FILES)
    return {FILES[0]: b"import _ungate_pushed\n", FILES[1]: _MODULE.format(lines=lines).encode()}


def foreign(root: Path) -> str:
    """The first file of an announcement that stands in the folder; empty where there is none."""
    return next((name for name in FILES if (root / name).exists()), "")


def is_site_folder(root: Path) -> bool:
    """Whether Python reads ``.pth`` files in the folder by itself."""
    return root.name in {"site-packages", "dist-packages"}
