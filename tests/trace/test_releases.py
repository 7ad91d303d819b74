"""The history of a gate in sentences, and which files decide about it."""

from __future__ import annotations

import pytest
from tests.trace.conftest import TARGET, Make, gate

from ungate.model import Status
from ungate.trace.releases import Release, changes, judge, matter


def history(*words: str) -> tuple[str, ...]:
    releases = [
        Release(f"0.{number}", Status.UNKNOWN if word == "absent" else Status(word), word != "absent")
        for number, word in enumerate(words, 1)
    ]
    return changes(releases)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(("absent", "absent"), (), id="never there"),
        pytest.param(("open", "open"), ("open in every release read",), id="never changed"),
        pytest.param(("closed", "closed", "open"), ("closed up to 0.2", "open from 0.3"), id="opened"),
        pytest.param(
            ("closed", "open", "closed", "closed"),
            ("closed up to 0.1", "open in 0.2", "closed from 0.3"),
            id="back",
        ),
        pytest.param(("absent", "closed", "open"), ("closed up to 0.2", "open from 0.3"), id="new"),
    ],
)
def test_changes(words: tuple[str, ...], told: tuple[str, ...]) -> None:
    assert history(*words) == told


def test_only_the_files_that_matter_are_kept(make: Make) -> None:
    (package,) = make(
        {
            "lib/__init__.py": "",
            "lib/jit.py": "from lib.flags import archs\ndef gen():\n    return archs([9, 10])\n",
            "lib/flags.py": "def archs(majors): ...\n",
            "lib/other.py": "def unrelated(): ...\n",
        }
    )
    narrowed, places = matter(package, "gen")
    assert set(narrowed.tops) == {"lib/jit.py", "lib/flags.py"}
    assert [(place.file, place.first, place.last) for place in places] == [("lib/jit.py", 2, 3)]
    closed = judge("1", places, [gate("lib/jit.py", 3, {90, 100})], TARGET)
    assert (closed.status, closed.present) == (Status.CLOSED, True)
    outside = judge("1", places, [gate("lib/jit.py", 1, {90})], TARGET)
    assert (outside.status, outside.note) == (Status.OPEN, "no gate inside it")


def test_a_flag_means_every_condition_around_its_default(make: Make) -> None:
    (package,) = make(
        {
            "app/args.py": """
            class Args:
                fast: bool = False

                def settle(self):
                    if is_new():
                        if self.single and not self.fast:
                            self.fast = True
            """
        }
    )
    _, places = matter(package, "--fast")
    assert [(place.first, place.last) for place in places] == [(6, 6), (7, 7)]


def test_an_absent_function_is_unknown(make: Make) -> None:
    (package,) = make({"lib/jit.py": "x = 1\n"})
    _, places = matter(package, "gen")
    assert judge("1", places, [], TARGET).present is False
