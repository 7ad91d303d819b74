"""The commands that advice names: about the same recipe, environment and target as the command that gives it."""

from __future__ import annotations

from ungate.errors import shell
from ungate.host.environment import Environment
from ungate.model import Recipe, Target

__all__ = ["command", "named", "where"]


def named(recipe: Recipe) -> str:
    """What a command calls the recipe by: its name, or the path of the file that it was read from."""
    return shell(recipe.file) if recipe.file else recipe.name


def command(verb: str, recipe: Recipe, environment: Environment, target: Target) -> str:
    """``ungate VERB`` for the recipe, with the options that name the environment and the target."""
    return f"ungate {verb} {named(recipe)}{where(environment)} --target {target}"


def where(environment: Environment) -> str:
    """The options that name an environment, each with a blank before it."""
    site = f" --site {shell(environment.roots[0])}" if len(environment.roots) == 1 else ""
    python = f" --python {shell(environment.python)}" if environment.python is not None else ""
    return site + python
