"""Misspelt words are told from words of which nothing is known."""

from __future__ import annotations

import pytest

from ungate.record.spelling import misspelt


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("allredcue", {"allredcue": "allreduce"}, id="turned-letters"),
        pytest.param("flashinfr all-reduce", {"flashinfr": "flashinfer"}, id="a-letter-missing"),
        pytest.param("all_reduce FUSION", {}, id="another-spelling"),
        pytest.param("allreduces fused", {}, id="another-ending"),
        pytest.param("xyzzy", {}, id="like-nothing"),
        pytest.param("fp4 sm75", {}, id="too-short"),
        pytest.param("what would it take to measure the tensors that they come from", {}, id="prose"),
    ],
)
def test_a_word_like_one_that_finds_results(text: str, meant: dict[str, str]) -> None:
    assert misspelt(text) == meant


def test_the_recipes_names_are_known_too() -> None:
    assert misspelt("embedd", ["embedded"]) == {}
    assert misspelt("embeddde", ["embedded"]) == {"embeddde": "embedded"}
