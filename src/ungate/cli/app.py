"""The command group: each command is one file of this folder, imported when it is asked for."""

from __future__ import annotations

import importlib
import pkgutil

import click

import ungate

__all__ = ["app"]

_NOT_COMMANDS = frozenset({"app", "main", "options", "output"})


class _Folder(click.Group):
    """Finds the command ``name`` as the object of that name in ``ungate/cli/name.py``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        import ungate.cli

        names = {module.name for module in pkgutil.iter_modules(ungate.cli.__path__)}
        return sorted(name for name in names - _NOT_COMMANDS if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(importlib.import_module(f"ungate.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Folder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(ungate.__version__, "--version", message="%(version)s")
def app() -> None:
    """Open GPU features that inference stacks gate off by architecture, prove whether they help on this
    machine, and put everything back when they do not.

    Exit codes: 0 done or keep, 1 findings or revert, 2 inconclusive, 3 error, 130 interrupted.
    """
