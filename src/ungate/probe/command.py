"""How the serving Python is started on ungate's files without ungate being one of its packages.

The package ``ungate`` is there an empty module whose ``__path__`` is ungate's folder: nothing is put on ``sys.path``,
so that no package of ungate's own environment can get in front of one of the server's.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ungate.host.environment import Environment

__all__ = ["command", "variables"]

_SOURCE = Path(__file__).resolve().parent.parent
_BEGIN = (
    "import runpy, sys, types; module = types.ModuleType('ungate'); module.__path__ = [sys.argv.pop(1)]; "
    "sys.modules['ungate'] = module; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def command(env: Environment, module: str, asked: Mapping[str, object]) -> list[str]:
    """The arguments that run ``module`` with ``asked`` as JSON; -B, since nothing is to be written beside the files."""
    python = str(env.python or sys.executable)
    return [python, "-B", "-c", _BEGIN, str(_SOURCE), module, json.dumps(asked)]


def variables(env: Environment, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of ungate with the packages of ``--site`` first on the path, and ``more``."""
    found = {**os.environ, **more, "PYTHONUNBUFFERED": "1"}
    if env.python is None:
        roots = [str(root) for root in env.roots]
        found["PYTHONPATH"] = os.pathsep.join([*roots, *filter(None, [found.get("PYTHONPATH", "")])])
    return found
