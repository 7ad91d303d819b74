"""The commands that advice names: about the same recipe, environment and target as the command that gives it."""

from __future__ import annotations

from ungate.errors import shell
from ungate.host.environment import Environment
from ungate.model import Recipe, Target

__all__ = ["command", "named"]


def named(recipe: Recipe) -> str:
    """What a command calls the recipe by: its name, or the path of the file that it was read from."""
    return shell(recipe.file) if recipe.file else recipe.name


def command(verb: str, recipe: Recipe, environment: Environment, target: Target) -> str:
    """``ungate VERB`` for the recipe, with the options that name the environment and the target."""
    words = ["ungate", verb, named(recipe)]
    if len(environment.roots) == 1:
        words += ["--site", shell(environment.roots[0])]
    if environment.python is not None:
        words += ["--python", shell(environment.python)]
    return " ".join([*words, "--target", str(target)])
