"""The environment that both arms start from."""

from __future__ import annotations

import os

from ungate.pipeline.records import Request

__all__ = ["base_environment"]


def base_environment(request: Request) -> dict[str, str]:
    """The environment both arms start from: ungate's own, with the packages of ``--site`` on the path."""
    environment = {**os.environ, **request.variables}
    if request.environment.python is None:
        roots = [str(root) for root in request.environment.roots]
        environment["PYTHONPATH"] = os.pathsep.join([*roots, *filter(None, [environment.get("PYTHONPATH", "")])])
    return environment
