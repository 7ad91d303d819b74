"""From gates to a series: one set of archs at every layer, riders named, nothing edited that cannot be."""

# ruff: noqa: E501

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from tests.patch.site import gate, install, story

from ungate.host.packages import Package
from ungate.model import Form, Gate, Target
from ungate.patch import open_series
from ungate.patch.content import apply, by_file

_TARGET = Target(120)


def test_the_coarsest_form_decides_what_every_layer_admits(tmp_path: Path) -> None:
    packages, gates = story(tmp_path)
    series = open_series("story", gates, _TARGET, packages)
    assert not series.refused
    added = [{*edit.admits} - {*next(g for g in gates if g.id == edit.gate).passes} for edit in series.edits]
    assert added == [{120, 121}] * len(series.edits)
    assert {edit.riders for edit in series.edits} == {(121,)}
    new = {edit.file: edit.new for edit in series.edits}
    assert new["kernels/include/fused.cuh"].count(b"__CUDA_ARCH__ == 1210") == 1


def test_a_series_without_a_list_of_majors_admits_the_target_alone(tmp_path: Path) -> None:
    packages, gates = story(tmp_path)
    series = open_series("kernel", gates[2:], _TARGET, packages)
    assert [edit.riders for edit in series.edits] == [()]
    assert b"1210" not in series.edits[0].new


def test_the_import_is_inserted_once_and_the_flag_stays(tmp_path: Path) -> None:
    packages, gates = story(tmp_path)
    series = open_series("engine", gates[:1], _TARGET, packages)
    data = (tmp_path / "engine/fuse.py").read_bytes()
    after = apply(data, series.edits).decode()
    assert "    is_sm100,\n    is_sm120,\n)" in after
    assert "(is_sm90() or is_sm100() or is_sm120())" in after
    assert after.count("is_sm120") == 2


def test_the_hashes_are_of_the_whole_files(tmp_path: Path) -> None:
    packages, gates = story(tmp_path)
    series = open_series("story", gates, _TARGET, packages)
    assert set(series.before) == set(series.after) == {g.file for g in gates}
    for file, edits in by_file(series.edits).items():
        data = (tmp_path / file).read_bytes()
        assert series.before[file] == hashlib.sha256(data).hexdigest()
        assert series.after[file] == hashlib.sha256(apply(data, edits)).hexdigest()


def test_the_digest_names_what_is_changed_and_not_what_it_is_called(tmp_path: Path) -> None:
    packages, gates = story(tmp_path)
    one = open_series("one", gates, _TARGET, packages)
    two = open_series("two", tuple(reversed(gates)), _TARGET, packages)
    other = open_series("one", gates, Target(110), packages)
    assert one.digest == two.digest != other.digest


def test_open_gates_and_repeated_gates_are_left_alone(tmp_path: Path) -> None:
    packages, gates = story(tmp_path)
    series = open_series("story", gates, Target(90), packages)
    assert series.edits == () and series.refused == ()
    twice = open_series("twice", (*gates, *gates), _TARGET, packages)
    assert twice == replace(open_series("twice", gates, _TARGET, packages))


def test_what_cannot_be_edited_is_refused_with_the_reason(tmp_path: Path) -> None:
    packages, gates = story(tmp_path)
    library = packages[0]
    (tmp_path / "kernels/generated.py").write_bytes(b"x = [9, 10]\n")
    (tmp_path / "kernels/ops.so").write_bytes(b"sm_90\n")
    asked = (
        replace(gates[1], id="unknown", passes=gate(library, "kernels/jit.py", "[9, 10]", (), Form.INT_LIST, unknown=True).passes),
        replace(gates[2], id="fixed", form=Form.FIXED, span=(0, 0), note="the answer is in a compiled extension"),
        replace(gates[2], id="mechanism", role="mechanism", span=(1, 9)),
        gate(library, "kernels/generated.py", "[9, 10]", (90, 100), Form.INT_LIST),
        gate(library, "kernels/ops.so", "sm_90", (90,), Form.STRING_LIST),
        replace(gates[0], id="gone", file="engine/gone.py"),
    )  # fmt: skip
    series = open_series("none", asked, _TARGET, packages)
    reasons = {g.id: reason for g, reason in series.refused}
    assert series.edits == ()
    assert "not known to hold" in reasons["unknown"]
    assert reasons["fixed"] == "the answer is in a compiled extension"
    assert "whatever it is given" in reasons["mechanism"]
    assert "not in the RECORD of kernels" in reasons[asked[3].id]
    assert "prebuilt binary" in reasons[asked[4].id]
    assert "in none of the packages" in reasons["gone"]


def _flag(tmp_path: Path, name: str) -> tuple[bytes, Package, Gate, Gate]:
    text = f"from kernels.predicates import is_sm100\n{name} = is_sm100()\n\ndef run():\n    if {name}:\n        return 1\n"
    story(tmp_path)
    package = install(tmp_path, "flags", "1", {"flags.py": text.encode()})
    form = Form.PYTHON_EXPRESSION
    define = gate(package, "flags.py", "is_sm100()", (100,), form, role="use", names=("is_sm100",))
    use = gate(package, "flags.py", name, (100,), form, nth=1, role="use", symbol="run", names=(name,))
    return text.encode(), package, define, use


def test_a_flag_keeps_its_value_where_an_expression_decides_by_it(tmp_path: Path) -> None:
    text, package, define, use = _flag(tmp_path, "_sm100_ok")
    series = open_series("flags", (define, use), _TARGET, (package,))
    assert [(g.id, why) for g, why in series.refused] == [
        (define.id, "it gives the flag _sm100_ok its value, and the expression that decides by the flag is opened")
    ]
    after = apply(text, series.edits).decode()
    assert "_sm100_ok = is_sm100()\n" in after and "if _sm100_ok or is_sm120():" in after
    alone = open_series("flags", (define,), _TARGET, (package,))
    assert "_sm100_ok = is_sm100() or is_sm120()\n" in apply(text, alone.edits).decode()


def test_what_reads_a_feature_follows_its_definition(tmp_path: Path) -> None:
    text, package, define, use = _flag(tmp_path, "FUSED")
    series = open_series("flags", (define, use), _TARGET, (package,))
    after = apply(text, series.edits).decode()
    assert series.refused == () and {edit.gate for edit in series.edits} == {define.id}
    assert "FUSED = is_sm100() or is_sm120()\n" in after and "if FUSED:\n" in after


def test_the_inner_of_two_nested_gates_is_edited(tmp_path: Path) -> None:
    package = install(tmp_path, "nest", "1", {"nest.py": b"def f(major):\n    return major in (9, 10)\n"})
    outer = gate(package, "nest.py", "major in (9, 10)", (90, 100, 103, 107), Form.PYTHON_EXPRESSION)
    inner = gate(package, "nest.py", "(9, 10)", (90, 100, 103, 107), Form.INT_LIST)
    series = open_series("nest", (outer, inner), _TARGET, (package,))
    assert [edit.gate for edit in series.edits] == [inner.id]
    assert series.refused == ()
