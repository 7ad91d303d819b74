"""Recipes: those that come along load, and every error of a broken one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.model import Cell, Variant
from ungate.recipes import load, names

CELL = "[[cells]]\nconcurrency = 1\nprompt_tokens = 1\noutput_tokens = 1\n"
GOOD = 'name = "mine"\nsummary = "S."\npackages = ["p"]\nentries = ["p.m:f"]\n'


@pytest.mark.parametrize("name", names())
def test_every_recipe_that_comes_along_loads_under_its_own_name(name: str) -> None:
    recipe = load(name)
    assert recipe.name == name
    assert (recipe.packages and recipe.entries and recipe.flag.startswith("--")) or recipe.attribute


def test_a_file_is_read_into_the_record(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + '[proof]\nlog = "on"\n[[cells]]\nconcurrency = 1\nprompt_tokens = 2\noutput_tokens = 3\n')
    recipe = load(path)
    assert (recipe.name, recipe.entries, dict(recipe.proof)) == ("mine", ("p.m:f",), {"log": "on"})
    assert recipe.cells == (Cell(1, 2, 3),)
    assert recipe.file == str(path)


def test_only_a_recipe_of_the_users_own_is_called_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(GOOD)
    assert load("mine.toml").file == str(tmp_path / "mine.toml")
    assert load(names()[0]).file == ""


def test_arms_and_ablations_are_read_and_a_recipe_need_not_open_anything(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        GOOD.replace('["p.m:f"]', "[]")
        + '[baseline]\nenvironment = { A = "1" }\n'
        + '[[arms]]\nname = "newer"\nrelease = ["p==2.0"]\narguments = ["--x"]\ncommand = ["/v/bin/python"]\n'
        + '[[ablations]]\nname = "off"\nfile = "p/m.py"\nkeywords = { k = false }\n'
    )
    recipe = load(path)
    assert recipe.entries == () and recipe.baseline == Variant("baseline", {"A": "1"})
    assert recipe.arms == (Variant("newer", arguments=("--x",), release=("p==2.0",), command=("/v/bin/python",)),)
    assert recipe.ablations == (Variant("off", file="p/m.py", keywords={"k": False}),)


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(Refusal, match=r"no recipe named 'lab-allreduce'.*Did you mean lab-allreduce-fusion\?"):
        load("lab-allreduce")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("name = ", "not valid TOML", id="toml"),
        pytest.param("name = " + "[" * 50_000, "not valid TOML", id="endless-nesting"),
        pytest.param("name = 1" + "0" * 5_000, "not valid TOML", id="endless-number"),
        pytest.param(
            "", "name is missing; summary is missing; packages is missing; entries is missing", id="all-missing"
        ),
        pytest.param(GOOD + "color = 1\n", "one error: color is not a field of a recipe", id="unknown-field"),
        pytest.param(
            GOOD + '[[arms]]\nname = "baseline"\n', "arms need names of their own, other than baseline", id="arm-name"
        ),
        pytest.param(GOOD + '[[arms]]\nname = "a"\nrelease = ["p>=1"]\n', "release.0 has not the form", id="release"),
        pytest.param(
            GOOD + '[[ablations]]\nname = "a"\nfile = "p/m.py"\nkeywords = { k = "os.remove(1)" }\n',
            "ablations.0.keywords.k",
            id="no-code",
        ),
        pytest.param(
            GOOD + 'metric = "tokens"\n',
            "metric: a verdict is not made from 'tokens', but from output_tokens_per_second or",
            id="metric",
        ),
        pytest.param(GOOD + 'metric = "ttft_mean"\n', "a verdict is not made from 'ttft_mean'", id="less-is-better"),
        pytest.param(GOOD + "needs_peer_access = 1\n", "needs_peer_access: ", id="wrong-kind"),
        pytest.param(GOOD.replace("p.m:f", "p.m.f"), "entries.0 has not the form", id="symbol"),
        pytest.param(GOOD + '[proof]\nlog = "(["\n', "proof.log: ", id="no-expression"),
        pytest.param(GOOD + '[proof]\nlogs = "x"\n', "proof.logs is not a field", id="no-way-of-proof"),
        pytest.param(GOOD + 'environment = { "A=B" = "x" }\n', "environment.A=B", id="no-variable"),
        pytest.param(GOOD + 'arguments = ["a\\u0000"]\n', "NUL character", id="nul"),
        pytest.param(
            GOOD + "[[cells]]\nconcurrency = 0\nprompt_tokens = 1\noutput_tokens = 1\n",
            "cells.0.concurrency",
            id="zero",
        ),
    ],
)
def test_a_broken_file_is_refused_with_all_its_errors(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(Refusal) as refused:
        load(str(path))
    assert str(path) in refused.value.what and words in refused.value.what
    assert refused.value.next_step


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    for path, words in (
        (tmp_path / "none.toml", "No such file"),
        (tmp_path, "directory"),
        (tmp_path / "latin.toml", "not UTF-8"),
    ):
        with pytest.raises(Refusal, match=words):
            load(f"{path}/" if path == tmp_path else str(path))
