"""What a chain lets in above and refuses below: the shapes of public reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.trace.conftest import TARGET, gate

from ungate.model import Chain, Gate, Hop, Reached, Sense
from ungate.trace import Trace
from ungate.trace.lint.contradictions import contradictions

Of = Callable[..., Trace]
FLAG = Hop("flag", "app/args.py", 1, "--fast", True)


def met(file: str, line: int, passes: set[int], **more: str) -> Gate:
    return replace(gate(file, line, passes), reached=Reached.YES, **more)  # type: ignore[arg-type]


def hop(kind: str, own: Gate, blocker: str = "") -> Hop:
    return Hop(kind, own.file, own.line, "here", True, (own,), blocker=blocker)


DEFAULT = hop("default", met("app/args.py", 5, {90, 100, 120}, role="default"))


@pytest.mark.parametrize(
    ("below", "rules"),
    [
        pytest.param(hop("jit-module", met("lib/jit.py", 3, {90, 100, 120})), [], id="the library agrees"),
        pytest.param(
            hop("jit-module", met("lib/jit.py", 3, {90, 100})), ["engine-admits-library-refuses"], id="sglang#15650"
        ),
        pytest.param(
            hop("call", met("app/layer.py", 9, {90, 100})), ["default-admits-code-refuses"], id="sglang#18758"
        ),
        pytest.param(hop("call", met("app/layer.py", 9, {90, 100, 120, 121})), [], id="the engine agrees with itself"),
        pytest.param(hop("kernel", met("lib/a.cuh", 4, {100})), [], id="another body in device code"),
    ],
)
def test_shapes(below: Hop, rules: list[str]) -> None:
    chain = Chain("fast", TARGET, (FLAG, DEFAULT, below))
    assert [finding.rule for finding in contradictions(chain, (120,))] == rules
    assert contradictions(chain, (90,)) == ()


def test_a_condition_that_nothing_switched_on_contradicts_only_another_package() -> None:
    chain = Chain(
        "fast",
        TARGET,
        (FLAG, hop("call", met("app/a.py", 5, {90, 120})), hop("call", met("app/b.py", 9, {90}))),
    )
    assert contradictions(chain, (120,)) == ()


HOST = b"""
void plan(int sm) {
  FLASH_CHECK(sm == 100 || sm == 103, "unsupported architecture");
  if (sm == 100) { tile = 4; }
}
"""


@pytest.mark.parametrize(
    ("word", "sense", "rules"),
    [
        pytest.param(b"sm == 100 || sm == 103", Sense.ALLOW, ["engine-admits-library-refuses"], id="sglang#24633"),
        pytest.param(b"sm == 100)", Sense.ALLOW, [], id="a choice of tiles"),
        pytest.param(b"sm == 100)", Sense.REFUSE, ["engine-admits-library-refuses"], id="guards an error"),
    ],
)
def test_checks_of_host_code(trace: Of, word: bytes, sense: Sense, rules: list[str]) -> None:
    made = trace({"lib/run.cu": HOST.decode()})
    text = made.corpus.text("lib/run.cu")
    start = text.index(word)
    own = replace(
        met("lib/run.cu", 3, {100, 103}), pattern="cuda-host-compare", span=(start, start + len(word) - 1), sense=sense
    )
    chain = Chain("fast", TARGET, (FLAG, DEFAULT, hop("source", own)))
    assert [finding.rule for finding in contradictions(chain, (120,), made.corpus)] == rules
    assert contradictions(chain, (120,)) == ()  # without the text, what host code does with it is not known


def test_a_floor_over_a_binary_of_one_family() -> None:
    floor = hop("call", met("app/layer.py", 9, {100, 103, 110, 120, 121}))
    binary = Hop("kernel", "lib/ops.so", 0, "op", True, blocker="the binary holds sm_100f and nothing that it can run")
    (finding,) = contradictions(Chain("fast", TARGET, (FLAG, floor, binary)), (120,))
    assert (finding.rule, finding.severity) == ("engine-admits-binary-lacks", "terminal")
    closed = hop("call", met("app/layer.py", 9, {100, 103}))
    assert contradictions(Chain("fast", TARGET, (FLAG, closed, binary)), (120,)) == ()
