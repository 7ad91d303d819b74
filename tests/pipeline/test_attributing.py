"""What an experiment on a lost candidate says, and how a candidate is changed for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.host import packages
from ungate.host.environment import resolve
from ungate.lab.install import install
from ungate.model import Cell, Decision, Sample, Series, Target, Verdict
from ungate.patch import create
from ungate.pipeline.altering import with_keywords, without
from ungate.pipeline.causes import Change, Tried, judged, named
from ungate.pipeline.reading import prepare
from ungate.pipeline.records import Ablation, Records
from ungate.recipes import load

CELL = Cell(4, 64, 32)
LOST = Verdict(CELL, Decision.REVERT, "slower", 0.1, 0.09, 0.11)
CHANGE = Change("pdl-off", "PDL off")


def _records() -> Records:
    speeds = {"baseline": [100.0, 101.0], "candidate": [10.0, 9.9]}
    return Records(
        samples=tuple(
            Sample(arm, number, CELL, "output_tokens_per_second", value, "token/s")
            for arm, values in speeds.items()
            for number, value in enumerate(values)
        )
    )


@pytest.mark.parametrize(
    ("tried", "outcome"),
    [
        (Tried(True, 98.0), "cause"),
        (Tried(True, 40.0), "cause"),
        (Tried(True, 20.0), "not the cause"),
        (Tried(True, 9.0), "not the cause"),
        (Tried(False, 98.0), "switch"),
        # What the lab did with a kernel's gate left closed: the path ran, at twice the speed, with an empty body.
        (Tried(True, 200.0, wrong="4 of 4 rungs differ"), "wrong"),
        (Tried(None, 98.0), "unknown"),
        (Tried(True, None, note="it died"), "unknown"),
        (Tried(refused="The server ended with exit code 1."), "needed"),
    ],
)
def test_only_an_arm_in_which_the_path_ran_and_was_fast_again_names_the_cause(tried: Tried, outcome: str) -> None:
    found = judged(_records(), LOST, CHANGE, tried, "output_tokens_per_second")
    assert found.outcome == outcome and found.said.startswith("PDL off: ") and found.said.endswith(".")


def test_what_the_experiments_say_together() -> None:
    def one(outcome: str) -> Ablation:
        return Ablation("a", CELL, 1.0, outcome, f"A: {outcome}.")

    assert named([]) == ""
    assert named([one("switch"), one("cause")]) == "The cause, by experiment: A: cause."
    assert "not known" in named([one("not the cause"), one("switch")])
    assert "in none of 2 experiments" in named([one("needed"), one("switch")])


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Series, tuple[packages.Package, ...]]:
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    install(tmp_path / "site")
    recipe = load("lab-allreduce-fusion")
    found = tuple(packages.find(resolve(tmp_path / "site", None), name) for name in recipe.packages)
    return prepare(recipe, found, Target(120))[2], found


def test_one_files_edits_are_left_out_and_the_others_stand(
    lab: tuple[Series, tuple[packages.Package, ...]], tmp_path: Path
) -> None:
    series, found = lab
    (gone, *_), kept = sorted(series.after), sorted(series.after)[1:]
    part = without(series, gone, found)
    assert sorted(part.after) == kept and part.digest != series.digest
    overlay = create(part, found, tmp_path / "overlays")
    assert all((overlay.root / file).read_bytes() != (found[0].root / file).read_bytes() for file in kept)
    if (overlay.root / gone).exists():
        assert (overlay.root / gone).read_bytes() == (found[0].root / gone).read_bytes()


def test_a_literal_is_passed_another_value_wherever_it_stands(
    lab: tuple[Series, tuple[packages.Package, ...]], tmp_path: Path
) -> None:
    series, found = lab
    file = "labengine/extra.py"
    text = 'def g():\n    """Größe"""\n    return f(ä=1, pdl=True), f(pdl=True, x=y), f(pdl=other)\n'
    (found[0].root / file).write_text(text, encoding="utf-8")
    changed = with_keywords(series, file, {"pdl": False}, found)
    overlay = create(changed, found, tmp_path / "overlays")
    assert (overlay.root / file).read_text(encoding="utf-8") == text.replace("pdl=True", "pdl=False")
    with pytest.raises(Refusal, match="nowhere as a literal"):
        with_keywords(series, file, {"nope": False}, found)
    with pytest.raises(Refusal, match="in none of the packages"):
        with_keywords(series, "labengine/none.py", {"pdl": False}, found)
