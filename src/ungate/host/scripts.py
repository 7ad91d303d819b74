"""The scripts of a wheel: what ``entry_points.txt`` names and what lies in ``NAME.data/scripts``."""

from __future__ import annotations

import base64
import configparser
import hashlib
import sys
from pathlib import Path

__all__ = ["write"]

_SCRIPT = """#!{python}
import sys

from {module} import {first}

if __name__ == "__main__":
    sys.exit({call}())
"""


def _row(path: Path, name: str) -> str:
    content = path.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def _entry_points(info: Path) -> dict[str, str]:
    source = info / "entry_points.txt"
    if not source.exists():
        return {}
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(source.read_text(encoding="utf-8"))
    return dict(parser["console_scripts"]) if parser.has_section("console_scripts") else {}


def write(root: Path, info: Path, into: Path) -> None:
    """Write the scripts of the wheel unpacked at ``root`` into ``into/bin`` and bring ``info`` up to date.

    ``info`` is the copy of its ``.dist-info``: INSTALLER and the rows for the scripts are added to its RECORD.
    """
    made: list[Path] = []
    for data in root.glob("*.data/scripts"):
        for script in sorted(data.iterdir()):
            lines = script.read_bytes().splitlines(keepends=True)
            if lines and lines[0].rstrip() in {b"#!python", b"#!pythonw"}:  # PEP 427: to be replaced on installation
                lines[0] = f"#!{sys.executable}\n".encode()
            made.append(into / "bin" / script.name)
            made[-1].parent.mkdir(exist_ok=True)
            made[-1].write_bytes(b"".join(lines))
    for name, value in _entry_points(info).items():
        module, _, call = value.partition("[")[0].strip().partition(":")
        if "/" in name or not all(part.isidentifier() for part in (*module.split("."), *call.split("."))):
            continue  # no installer writes a script for this either
        made.append(into / "bin" / name)
        made[-1].parent.mkdir(exist_ok=True)
        text = _SCRIPT.format(python=sys.executable, module=module, first=call.partition(".")[0], call=call)
        made[-1].write_text(text, encoding="utf-8")
    (info / "INSTALLER").write_text("ungate\n", encoding="utf-8")
    for script in made:
        script.chmod(0o755)
    record = info / "RECORD"
    rows = [line for line in record.read_text(encoding="utf-8").splitlines(keepends=True) if "/INSTALLER," not in line]
    rows += [_row(info / "INSTALLER", f"{info.name}/INSTALLER")]
    rows += [_row(script, f"bin/{script.name}") for script in made]
    record.write_text("".join(rows), encoding="utf-8")
