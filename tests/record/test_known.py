"""The public results that come with ungate, and which of them are found."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from ungate import recipes, record
from ungate.host.facts import HostFacts
from ungate.host.gpus import Link
from ungate.model import Target
from ungate.record.known import OUTCOMES, TOPOLOGIES, described, known, matching, topology_of

SM120 = Target(120, "a")
STORY = {"flashinfer-python": "0.6.3", "sglang": "0.5.9"}
FEATURE = described(recipes.load("flashinfer-allreduce-fusion"))


def _references(*args: object, **more: object) -> set[str]:
    return {match.result.reference for match in matching(*args, **more)}  # type: ignore[arg-type]


def test_the_file_is_whole() -> None:
    results = known()
    assert len(results) >= 45 and len({result.reference for result in results}) == len(results)
    for result in results:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+(#\d+|:[\w./-]+)", result.reference), result.reference
        assert result.outcome in OUTCOMES and set(result.topologies) <= set(TOPOLOGIES)
        assert result.features and result.what and result.reopens
        assert all(70 <= arch <= 121 for arch in result.archs)
        assert not result.date or datetime.date.fromisoformat(result.date).year >= 2023
        for bounds in result.packages.values():
            SpecifierSet(bounds)


def test_its_fields_are_those_of_the_record() -> None:
    text = (Path(record.__path__[0]) / "known.toml").read_text()
    names = set(re.findall(r"^(\w+) = ", text, re.MULTILINE))
    assert names == {
        *("reference", "date", "outcome", "features", "packages", "archs"),
        *("topologies", "ranks", "hardware", "what", "reopens", "partial"),
    }


def test_the_story_finds_its_own_kind() -> None:
    found = _references(FEATURE, SM120, STORY, "pcie-peer")
    assert {"sgl-project/sglang#32330", "flashinfer-ai/flashinfer#3903", "local-inference-lab/rtx6kpro#25"} <= found
    assert "vllm-project/vllm#48075" not in found  # another architecture and topology
    assert "vllm-project/vllm#56128" not in found  # another engine's allreduce


@pytest.mark.parametrize("spelling", ["custom allreduce", "vLLM custom all-reduce", "custom_all_reduce"])
def test_another_feature_by_any_spelling(spelling: str) -> None:
    found = _references(spelling, SM120, {"vllm": "0.28.1"}, "pcie-peer")
    assert "vllm-project/vllm#56128" in found
    assert "flashinfer-ai/flashinfer#3903" not in found


def test_a_version_outside_of_the_range_does_not_match() -> None:
    assert "flashinfer-ai/flashinfer#3903" not in _references(FEATURE, SM120, {"flashinfer-python": "0.6.17"})
    assert "flashinfer-ai/flashinfer#3903" in _references(FEATURE, SM120, {"flashinfer-python": "0.6.16.post2+cu130"})
    assert "flashinfer-ai/flashinfer#3903" not in _references(FEATURE, SM120, {"sglang": "0.5.9"})


def test_siblings_that_do_not_fit_need_both_versions() -> None:
    skewed = {"flashinfer-python": "0.6.12", "flashinfer-jit-cache": "0.6.11.post1+cu130", "sglang": "0.5.14"}
    b300 = Target(103)
    assert "sgl-project/sglang#28786" in _references(FEATURE, b300, skewed)
    assert "sgl-project/sglang#28786" not in _references(FEATURE, b300, {**skewed, "flashinfer-jit-cache": "0.6.12"})


def test_what_is_not_known_excludes_nothing_and_is_named() -> None:
    (match,) = [each for each in matching(FEATURE, None) if each.result.reference == "sgl-project/sglang#32330"]
    assert match.open == ("version of flashinfer-python", "topology", "target")
    assert "sgl-project/sglang#32330" not in _references(FEATURE, SM120, STORY, "nvlink")


def test_the_worst_come_first_and_the_newest_of_a_kind() -> None:
    found = matching("custom allreduce", None)
    ranks = [OUTCOMES.index(match.result.outcome) for match in found]
    assert ranks == sorted(ranks) and ranks[0] < ranks[-1]
    dates = [match.result.date for match in found if match.result.outcome == "hang"]
    assert dates == sorted(dates, reverse=True)


def test_an_unknown_feature_finds_nothing() -> None:
    assert matching("rotary embedding", SM120) == ()


def test_addresses() -> None:
    urls = {result.reference: result.url for result in known()}
    assert urls["sgl-project/sglang#32330"] == "https://github.com/sgl-project/sglang/issues/32330"
    (document,) = [url for reference, url in urls.items() if ":" in reference]
    assert document.startswith("https://github.com/AlexGS74/glm47-nvfp4-sm120/blob/HEAD/docs/")


@pytest.mark.parametrize(
    ("links", "named"),
    [
        ((), None),
        ((Link(0, 1, read=True, write=True, nvlink=True),), "nvlink"),
        ((Link(0, 1, read=True, write=True, nvlink=False),), "pcie-peer"),
        ((Link(0, 1, read=True, write=False, nvlink=False),), "no-peer"),
        ((Link(0, 1, read=True, write=True),), None),
        (
            (Link(0, 1, read=True, write=True, nvlink=True), Link(0, 2, read=True, write=True, nvlink=False)),
            "nvlink-pairs",
        ),
    ],
)
def test_topology(links: tuple[Link, ...], named: str | None) -> None:
    assert topology_of(HostFacts(links=links)) == named
    assert topology_of(None) is None
