"""Headers of other distributions that a build needs: from the environment, else fetched as required."""

from __future__ import annotations

from ungate.build.descriptions import Companion
from ungate.errors import Refusal
from ungate.host import index, packages
from ungate.host.environment import Environment
from ungate.host.packages import Package
from ungate.host.progress import Report, silent

__all__ = ["companion"]


def companion(env: Environment, package: Package, report: Report = silent) -> Companion:
    """Finds a distribution in ``env``; where it is not installed, the cache or the index has it.

    The version is the newest that ``package`` allows, and one that is in the cache already is preferred, so that a
    build can be repeated without the network.
    """

    def find(name: str) -> Package:
        try:
            return packages.find(env, name)
        except Refusal:
            wanted = packages.requirement(package, name) or name
            root = index.cached(wanted) or index.fetch(wanted, report)
            return next(found for found in packages.below(root) if packages.canonical(found.name) == name)

    return find
