"""Every pattern file's own samples: first those in which nothing is found, each saying why."""

from __future__ import annotations

import pytest

from ungate.model import KNOWN_ARCHS, Gate
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.gates import gates
from ungate.scan.patterns import Pattern, patterns, samples
from ungate.scan.select import Source
from ungate.source.cuda.reader import READER
from ungate.source.python.evaluate import Evaluator
from ungate.source.python.file import PythonFile
from ungate.source.python.module import PythonModule
from ungate.source.python.world import World

_ALL = list(samples())


def _found(pattern: Pattern, text: str) -> tuple[list[Gate], bytes]:
    data = text.encode()
    name = "sample.py" if pattern.language == "python" else "sample.cuh"
    file: object
    if pattern.language == "python":
        world = World(())
        module = PythonModule(name, "sample", data)
        world.add(module)
        file = PythonFile(module, Evaluator(world))
    else:
        facts = READER.gather(name, data)
        file = READER.read(name, data, READER.settle([(name, facts)] if facts is not None else []))
    drafts: list[tuple[Pattern, Draft]] = [(pattern, draft) for draft in pattern.find(file)] if file is not None else []
    return gates(Source("", name, "sample", "1", pattern.language, (0, 0, 0), False), drafts), data


@pytest.mark.parametrize(("pattern", "sample"), _ALL, ids=[f"{pattern.slug}: {sample.id}" for pattern, sample in _ALL])
def test_sample(pattern: Pattern, sample: Nothing | Finds) -> None:
    found, data = _found(pattern, sample.source)
    if isinstance(sample, Nothing):
        assert [(gate.line, gate.condition) for gate in found] == []
        return
    passes = {gate.line: tuple(gate.passes) if gate.passes.decided else None for gate in found}
    assert passes == {
        line: None if archs is None else tuple(sorted(set(archs) & set(KNOWN_ARCHS)))
        for line, archs in sample.passes.items()
    }
    for line, text in (sample.decides or {}).items():
        spans = [data[gate.span[0] : gate.span[1]].decode() for gate in found if gate.line == line]
        assert text in spans


@pytest.mark.parametrize("pattern", [*patterns("python"), *patterns("cuda")], ids=lambda pattern: pattern.slug)
def test_a_pattern_brings_samples_and_those_that_find_nothing_come_first(pattern: Pattern) -> None:
    own = [sample for each, sample in _ALL if each.slug == pattern.slug]
    assert any(isinstance(sample, Nothing) for sample in own)
    assert any(isinstance(sample, Finds) for sample in own)
    kinds = [isinstance(sample, Nothing) for sample in own]
    assert kinds == sorted(kinds, reverse=True)
    assert len({sample.id for sample in own}) == len(own)
