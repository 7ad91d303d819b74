"""Write the generated parts of the documentation anew: ``python docs/generate.py [--check]``.

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->`` in a Markdown file of the project.
``--check`` writes nothing and exits 1 when a part is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from ungate.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
PART = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _commands(
    group: click.Group, path: str, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, max_content_width=100, terminal_width=100)
        yield f"{path} {name}", command, inner
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}", inner)


def command_reference() -> str:
    """The ``--help`` text of every command."""
    top = click.Context(app, info_name="ungate", max_content_width=100, terminal_width=100)
    parts = []
    for path, command, context in _commands(app, "ungate", top):
        parts.append(f"## {path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


PARTS: dict[str, Callable[[], str]] = {"command-reference": command_reference}


def main() -> int:
    stale = []
    for page in sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}):
        old = page.read_text(encoding="utf-8")
        new = PART.sub(lambda match: f"{match[1]}{PARTS[match['name']]()}{match[3]}", old)
        if new != old:
            stale.append(page.relative_to(ROOT))
            if "--check" not in sys.argv:
                page.write_text(new, encoding="utf-8")
    if "--check" in sys.argv and stale:
        print(f"Out of date: {', '.join(map(str, stale))}. Run: python docs/generate.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
