"""A command that advice names is about what the command that gives it was about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.host.environment import Environment
from ungate.model import Target
from ungate.pipeline import stages_of
from ungate.pipeline.commands import command, named
from ungate.recipes import load

OWN = load("lab-allreduce-fusion")
FILED = replace(OWN, name="mine", file="/my recipes/mine.toml")


@pytest.mark.parametrize(
    ("recipe", "environment", "told"),
    [
        pytest.param(OWN, Environment((Path("/s"),), None), f"{OWN.name} --site /s", id="folder"),
        pytest.param(OWN, Environment((Path("/a"), Path("/b")), Path("/py")), f"{OWN.name} --python /py", id="python"),
        pytest.param(OWN, Environment((Path("/s"),), Path("/py")), f"{OWN.name} --site /s --python /py", id="both"),
        pytest.param(FILED, Environment((Path("/s"),), None), "'/my recipes/mine.toml' --site /s", id="file"),
    ],
)
def test_the_same_recipe_environment_and_target(recipe: object, environment: Environment, told: str) -> None:
    assert isinstance(recipe, type(OWN))
    assert command("why", recipe, environment, Target(120)) == f"ungate why {told} --target sm_120"


def test_a_recipe_of_the_users_own_is_named_by_its_file_where_a_command_is_missing() -> None:
    assert named(OWN) == OWN.name
    with pytest.raises(Refusal, match=r"ungate run '/my recipes/mine.toml' -- SERVER COMMAND"):
        stages_of(FILED, "launch", ())
