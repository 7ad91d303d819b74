from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ungate.errors import Refusal
from ungate.judge import policy as files
from ungate.model import Cell, Decision, Place, Policy, PolicyRow

KEEP, REVERT, OPEN = Decision.KEEP, Decision.REVERT, Decision.INCONCLUSIVE


def _policy(*rows: tuple[int, Decision]) -> Policy:
    return Policy("f", "sm_120", tuple(PolicyRow(Cell(count, 64, 32), decision) for count, decision in rows))


@pytest.mark.parametrize(
    ("rows", "spans"),
    [
        (((1, KEEP), (16, KEEP), (64, REVERT)), ((1, 16),)),
        (((1, REVERT), (16, KEEP), (64, KEEP)), ((16, 64),)),
        (((1, KEEP), (16, OPEN), (64, KEEP)), ((1, 1), (64, 64))),
        (((64, KEEP), (1, KEEP)), ((1, 64),)),
        (((1, REVERT),), ()),
        (((8, KEEP), (8, REVERT), (16, KEEP)), ((16, 16),)),
        # sglang#12654: the fused kernel wins on small batches and loses at 2048, where the threshold used to be.
        (((1, KEEP), (128, KEEP), (2048, REVERT)), ((1, 128),)),
    ],
)
def test_it_is_used_between_measured_points_only(
    rows: tuple[tuple[int, Decision], ...], spans: tuple[tuple[int, int], ...]
) -> None:
    assert _policy(*rows).spans() == spans


def test_what_is_not_known_is_left_out_and_comes_back_as_not_known() -> None:
    text = files.dumps(_policy((1, KEEP)))
    assert "peer_access" not in text and "ratio" not in text and "[place]" not in text
    assert files.loads(text, "it") == _policy((1, KEEP))


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_RATIO = st.none() | st.floats(1e-6, 1e6)
_ROWS = st.builds(
    PolicyRow,
    cell=st.builds(Cell, st.integers(1, 4096), st.integers(1, 9999), st.integers(1, 9999)),
    decision=st.sampled_from(Decision),
    reason=_TEXT,
    ratio=_RATIO,
    low=_RATIO,
    high=_RATIO,
    prefill=st.none() | st.sampled_from(Decision),
    decode=st.none() | st.sampled_from(Decision),
)
_POLICIES = st.builds(
    Policy,
    feature=st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True),
    target=st.just("sm_120"),
    rows=st.lists(_ROWS, min_size=1, max_size=3).map(tuple),
    place=st.builds(
        Place, st.none() | st.integers(1, 64), st.none() | st.booleans(), st.lists(_TEXT, max_size=2).map(tuple)
    ),
    packages=st.dictionaries(_TEXT, _TEXT, max_size=2),
    series=_TEXT,
    arguments=st.lists(_TEXT, max_size=2).map(tuple),
    environment=st.dictionaries(_TEXT, _TEXT, max_size=2),
    measured=_TEXT,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(_POLICIES)
def test_every_policy_comes_back_as_it_was(policy: Policy) -> None:
    assert files.loads(files.dumps(policy), "it") == policy


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("format = 1", "format = 2"), "format 1"),
        (('feature = "', 'feature = "../../etc/'), "feature"),
        (("concurrency = 1\n", "concurrency = 100000000000000000000000000000\n"), "concurrency"),
        (('decision = "keep"', 'decision = "yes"'), "cell.0.decision"),
        (("concurrency = 1", "concurrency = 0"), "cell.0.concurrency"),
        (('feature = "f"', 'feature = "f"\ncommand = "rm"'), "command"),
        (('decision = "keep"', 'decision = "keep"\nratio = nan'), "cell.0.ratio"),
        (("[[cell]]", "[[cell]"), "TOML"),
        (("format = 1", "format = 1" + "0" * 5_000), "TOML"),
        (("format = 1", "format = " + "[" * 50_000), "TOML"),
    ],
)
def test_another_file_is_refused_with_the_place(change: tuple[str, str], said: str) -> None:
    text = files.dumps(_policy((1, KEEP)))
    assert change[0] in text
    with pytest.raises(Refusal, match=said):
        files.loads(text.replace(*change), "it")


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="No such file"):
        files.read(tmp_path / "none.toml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refusal, match="UTF-8"):
        files.read(tmp_path / "binary")
