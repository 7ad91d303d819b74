"""A policy written back: conditions at gates, rows of size tables, or a reason why not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.patch.site import gate, install

from ungate.errors import Refusal
from ungate.host.packages import Package, below
from ungate.model import Cell, Decision, Form, Gate, Place, Policy, PolicyRow, Target
from ungate.patch import open_series
from ungate.patch.content import changed
from ungate.patch.proof import compiles
from ungate.patch.restrict import restrict, row_ranges

KEEP, REVERT = Decision.KEEP, Decision.REVERT
_Phases = tuple[Decision, Decision | None, Decision | None]


def _policy(rows: Mapping[tuple[int, int], Decision | _Phases], **place: object) -> Policy:
    made = []
    for (concurrency, prompt), given in rows.items():
        decision, prefill, decode = given if isinstance(given, tuple) else (given, None, None)
        made.append(PolicyRow(Cell(concurrency, prompt, 64), decision, prefill=prefill, decode=decode))
    return Policy("fused", "sm_120", tuple(made), Place(**place))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "ranges"),
    [
        ({(1, 512): KEEP, (16, 512): KEEP}, None),
        ({(1, 512): KEEP, (16, 512): KEEP, (64, 512): REVERT}, ((1, 16),)),
        ({(1, 512): REVERT, (4, 512): KEEP, (16, 512): REVERT, (64, 512): KEEP}, ((4, 4), (64, 64))),
        ({(1, 512): KEEP, (16, 512): KEEP, (16, 4096): REVERT}, ((1, 1),)),
        ({(1, 512): (KEEP, REVERT, KEEP), (16, 512): (KEEP, REVERT, KEEP)}, ((1, 16),)),
        ({(1, 512): (KEEP, KEEP, REVERT), (16, 512): (KEEP, KEEP, REVERT)}, ((512, None),)),
        ({(1, 512): (KEEP, KEEP, KEEP), (16, 512): (REVERT, KEEP, REVERT)}, ((1, 1), (512, None))),
    ],
)
def test_the_rows_that_a_policy_uses(
    rows: Mapping[tuple[int, int], Decision | _Phases], ranges: tuple[tuple[int, int | None], ...] | None
) -> None:
    assert row_ranges(_policy(rows)) == ranges


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ({(16, 512): KEEP, (16, 4096): REVERT}, "same requests in flight"),
        ({(1, 16): (KEEP, KEEP, KEEP), (64, 16): (KEEP, KEEP, REVERT)}, "cannot be told from a decode step"),
        ({(1, 512): (KEEP, KEEP, REVERT), (4, 512): (KEEP, REVERT, REVERT)}, "no phase uses it"),
    ],
)
def test_what_no_number_of_rows_tells_apart(rows: Mapping[tuple[int, int], Decision | _Phases], reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        row_ranges(_policy(rows))


_ENGINE = b"""import torch

from engine.hw import is_sm90, is_sm100, is_sm120


class Arguments:
    tp_size: int = 1

    def fill(self):
        if is_sm90() or is_sm100():
            self.fuse = True


def fuse(batch_size: int):
    return (is_sm90() or is_sm100()) and batch_size > 0


def fused(hidden_states, weight):
    if (is_sm90() or is_sm100()) and weight.shape[0] > 1:
        return hidden_states.shape[0]


def flat():
    return is_sm90() or is_sm100()


MAX_SIZES = {
    9: {2: 64 * MiB, 4: 32 * MiB, 8: 1 * MiB},
    10: {
        2: 64 * MiB,  # 64 MB
        4: 16 * MiB,  # 16 MB
        8: 512 * 1024,
    },
}
MAX_SIZES_MB: dict[int, dict[int, float]] = {90: {2: 64, 4: 2, 8: 0.5}, 100: {2: 64, 4: 32, 8: 1}}
"""
_HW = b"import torch\n" + b"".join(
    b"def is_sm%d0():\n    major, _ = torch.cuda.get_device_capability()\n    return major == %d\n" % (n, n)
    for n in (9, 10, 12)
)
_OLD = (90, 100, 103, 107)
_ASKED = "is_sm90() or is_sm100()"


@pytest.fixture
def engine(tmp_path: Path) -> tuple[Package, ...]:
    install(tmp_path, "engine", "1", {"engine/__init__.py": b"", "engine/hw.py": _HW, "engine/fuse.py": _ENGINE})
    return below(tmp_path)


def _gate(package: Package, text: str, form: Form = Form.PYTHON_EXPRESSION, nth: int = 0) -> Gate:
    return gate(package, "engine/fuse.py", text, _OLD, form, nth=nth, names=("is_sm90", "is_sm100"))


def _tables(package: Package) -> tuple[Gate, Gate]:
    text = _ENGINE.decode()
    first = text[text.index("{\n    9:") : text.index("\nMAX_SIZES_MB")]
    return _gate(package, first, Form.TABLE), _gate(package, text[text.index("{90:") :].strip(), Form.TABLE)


def _written(
    policy: Policy, gates: tuple[Gate, ...], packages: tuple[Package, ...], row_bytes: int | None = None
) -> str:
    where = restrict(policy, gates, packages, row_bytes=row_bytes)
    series = open_series("s", gates, Target(120), packages, when=where.when, entries=where.entries)
    assert series.refused == ()
    ((path, _, after),) = changed(series, packages).values()
    path.write_bytes(after)
    assert compiles(series, packages[0].root) == ()
    return after.decode()


_SMALL = {(1, 512): KEEP, (16, 512): KEEP, (64, 512): REVERT}


def test_each_gate_says_what_its_code_knows(engine: tuple[Package, ...]) -> None:
    gates = tuple(_gate(engine[0], _ASKED, nth=n) for n in range(4))
    text = _written(_policy(_SMALL, tensor_parallel=4), gates, engine)
    assert "if is_sm90() or is_sm100() or (is_sm120() and self.tp_size == 4):" in text
    assert "(is_sm90() or is_sm100() or (is_sm120() and 1 <= batch_size <= 16)) and batch_size > 0" in text
    assert "(is_sm90() or is_sm100() or (is_sm120() and 1 <= hidden_states.shape[0] <= 16)) and weight" in text
    assert "    return is_sm90() or is_sm100() or is_sm120()\n" in text, "this one knows nothing, and the others hold"


def test_several_ranges_and_ranks_at_one_gate(tmp_path: Path) -> None:
    source = _ENGINE.replace(b"def fuse(batch_size: int):", b"def fuse(batch_size: int, world_size: int):")
    install(tmp_path, "engine", "1", {"engine/__init__.py": b"", "engine/hw.py": _HW, "engine/fuse.py": source})
    packages = below(tmp_path)
    rows: Mapping[tuple[int, int], Decision | _Phases] = {(1, 9): KEEP, (4, 9): REVERT, (8, 9): KEEP, (16, 9): KEEP}
    text = _written(_policy(rows, tensor_parallel=2), (_gate(packages[0], _ASKED, nth=1),), packages)
    assert "(is_sm120() and (batch_size == 1 or 8 <= batch_size <= 16) and world_size == 2)" in text


def test_a_table_of_sizes_gets_a_row_for_what_was_measured(engine: tuple[Package, ...]) -> None:
    gates = _tables(engine[0])
    text = _written(_policy(_SMALL, tensor_parallel=4), gates, engine, row_bytes=2 * 16384)
    assert "12: {4: 524288}" in text, "16 rows of 32 KiB, below the neighbour's 16 MiB"
    assert "120: {4: 0.5}" in text and "121: {4: 0.5}" in text


def test_a_table_keeps_a_limit_that_is_smaller_anyway(engine: tuple[Package, ...]) -> None:
    text = _written(_policy(_SMALL, tensor_parallel=8), _tables(engine[0]), engine, row_bytes=1 << 20)
    assert "12: {8: 512 * 1024}" in text and "120: {8: 1}" in text


def test_without_the_size_of_a_row_a_table_says_the_ranks_only(engine: tuple[Package, ...]) -> None:
    rows: Mapping[tuple[int, int], Decision | _Phases] = {(1, 512): KEEP, (16, 512): KEEP}
    text = _written(_policy(rows, tensor_parallel=4), _tables(engine[0]), engine)
    assert "12: {4: 16 * MiB}" in text and "120: {4: 32}" in text


def test_reasons_why_not(engine: tuple[Package, ...]) -> None:
    gates = (_gate(engine[0], _ASKED, nth=3), *_tables(engine[0]))
    with pytest.raises(Refusal, match="no gate knows how many there are"):
        restrict(_policy(_SMALL), gates, engine)
    rows: Mapping[tuple[int, int], Decision | _Phases] = {(1, 512): REVERT, (16, 512): KEEP}
    with pytest.raises(Refusal, match="no gate knows how many there are"):
        restrict(_policy(rows), gates, engine, row_bytes=4096)  # a maximum cannot leave the small ones out
    with pytest.raises(Refusal, match="nowhere"):
        restrict(_policy({(1, 512): REVERT}), gates, engine)
    where = restrict(_policy(_SMALL, tensor_parallel=16), gates, engine, row_bytes=4096)
    series = open_series("s", gates, Target(120), engine, when=where.when, entries=where.entries)
    assert [why for _, why in series.refused] == ["its table has no size for 16 ranks to go by"] * 2


def test_what_has_no_place_is_named(engine: tuple[Package, ...]) -> None:
    policy = _policy(_SMALL, tensor_parallel=4, peer_access=False, gpus=("RTX PRO 6000", "RTX PRO 6000"))
    asked = _gate(engine[0], _ASKED, nth=1)
    unsaid = restrict(policy, (asked,), engine).unsaid
    assert len(unsaid) == 3 and "4 ranks" in unsaid[0] and "without peer access" in unsaid[1]
    assert "measured on RTX PRO 6000," in unsaid[2]
    default = _gate(engine[0], _ASKED, nth=0)
    assert len(restrict(policy, (asked, default), engine).unsaid) == 2
    bypassed = restrict(policy, (asked, default), engine, bypassed=frozenset({default.id}))
    assert "no gate that always asks" in bypassed.unsaid[0]


@pytest.mark.wheels
def test_the_real_tables_and_the_real_gate(tmp_path: Path) -> None:
    from ungate.host.index import install as fetched
    from ungate.scan import scan

    packages = fetched(["sglang==0.5.9"], tmp_path)
    called = "sglang/srt/layers/communicator.py"
    sizes = "sglang/srt/distributed/device_communicators/all_reduce_utils.py"
    found = scan(packages, use_cache=False).gates
    asked = tuple(g for g in found if g.file == called and g.condition == "_is_sm90_supported or _is_sm100_supported")
    text = (tmp_path / sizes).read_text()
    table = text[text.index("{\n    9: {") :].strip()
    gates = (*asked, gate(packages[0], sizes, table, _OLD, Form.TABLE))
    where = restrict(_policy(_SMALL, tensor_parallel=8), gates, packages, row_bytes=7168 * 2)
    series = open_series("s", gates, Target(120), packages, when=where.when, entries=where.entries)
    assert series.refused == () and len(series.after) == 2
    after = {file: new.decode() for file, (_, _, new) in changed(series, packages).items()}
    assert "_is_sm100_supported or (is_sm120_supported() and 1 <= batch_size <= 16))" in after[called]
    assert after[sizes].endswith("    12: {8: 229376},\n}\n"), after[sizes][-200:]
