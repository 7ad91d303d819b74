"""The C++ patterns on small real files: each marked line is found and decided, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ungate.model import Form, Sense
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import Pattern, patterns, samples
from ungate.source.condition import Not, passing
from ungate.source.cuda.reader import READER

FOLDER = Path(__file__).with_name("cuda")
_MARK = re.compile(r"(?://|#) gate(-above)?: ([\w-]+) ([\d ]+|unknown)\s*$")


def found_in(files: dict[str, bytes]) -> dict[str, list[tuple[Pattern, Draft]]]:
    """Every draft of every file, the files read together."""
    index = READER.settle([(name, fact) for name, data in files.items() if (fact := READER.gather(name, data))])
    result: dict[str, list[tuple[Pattern, Draft]]] = {}
    for name, data in files.items():
        file = READER.read(name, data, index) if READER.concerns(data) else None
        result[name] = [(each, draft) for each in patterns("cuda") for draft in each.find(file)] if file else []
    return result


def passes(draft: Draft) -> tuple[int, ...] | None:
    archs = passing(Not(draft.condition) if draft.sense is Sense.REFUSE else draft.condition)
    return tuple(archs) if archs.decided else None


def expected_in(text: str) -> dict[tuple[int, str], tuple[int, ...] | None]:
    wanted: dict[tuple[int, str], tuple[int, ...] | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        mark = _MARK.search(line)
        if mark:
            archs = None if mark[3] == "unknown" else tuple(int(arch) for arch in mark[3].split())
            wanted[number - 2 if mark[1] else number, mark[2]] = archs
    return wanted


@pytest.fixture(scope="module")
def drafts() -> dict[str, list[tuple[Pattern, Draft]]]:
    return found_in({path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())})


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_marked_lines(name: str, drafts: dict[str, list[tuple[Pattern, Draft]]]) -> None:
    wanted = expected_in((FOLDER / name).read_text())
    assert wanted
    found: dict[tuple[int, str], tuple[int, ...] | None] = {}
    ranked: dict[int, Pattern] = {}
    for pattern, draft in sorted(drafts[name], key=lambda each: (each[0].rank, each[1].span)):
        if ranked.setdefault(draft.line, pattern) is pattern:
            found.setdefault((draft.line, pattern.slug), passes(draft))
    assert found == wanted


def test_spans_hold_the_deciding_text(drafts: dict[str, list[tuple[Pattern, Draft]]]) -> None:
    for name, found in drafts.items():
        data = (FOLDER / name).read_bytes()
        for _, draft in found:
            if draft.form is Form.FIXED:
                continue
            text = data[slice(*draft.span)].decode()
            assert text.strip() == text and text and not text.endswith("\\")
            if draft.form is Form.MACRO_TEST:
                assert text in draft.names
            else:
                assert " ".join(draft.text.replace("\\", " ").split()) == " ".join(text.replace("\\", " ").split())


def test_symbols(drafts: dict[str, list[tuple[Pattern, Draft]]]) -> None:
    symbols = {draft.line: draft.symbol for _, draft in drafts["nesting.cuh"]}
    text = (FOLDER / "nesting.cuh").read_text().splitlines()
    for line, symbol in symbols.items():
        assert symbol in {
            "inside_a_condition",
            "brace_in_another_branch",
            "fallback_first",
            "stops",
        }, text[line - 1]
    assert {draft.symbol for _, draft in drafts["host.cpp"]} == {
        "candidates",
        "supported",
        "launch",
        "dispatch",
        "compile",
    }


@pytest.mark.parametrize(
    ("pattern", "sample"),
    [
        pytest.param(found, sample, id=f"{found.slug}-{sample.id}")
        for found, sample in samples()
        if found.language == "cuda"
    ],
)
def test_samples(pattern: Pattern, sample: Nothing | Finds) -> None:
    found = [draft for each, draft in found_in({"sample.cu": sample.source.encode()})["sample.cu"] if each is pattern]
    if isinstance(sample, Nothing):
        assert found == []
        return
    assert {draft.line: passes(draft) for draft in found} == sample.passes
    for line, text in (sample.decides or {}).items():
        (draft,) = [each for each in found if each.line == line]
        assert sample.source.encode()[slice(*draft.span)].decode() == text
