"""The edited files are still what they were."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from tests.patch.site import install, story

from ungate.model import Series, Target
from ungate.patch import create, open_series
from ungate.patch.proof import compiles, imports, preprocesses


def _overlay(tmp_path: Path) -> tuple[Series, Path]:
    packages, gates = story(tmp_path / "site")
    series = open_series("story", gates, Target(120), packages)
    return series, create(series, packages, tmp_path / "arms").root


def test_what_the_edits_of_the_story_leave_is_sound(tmp_path: Path) -> None:
    series, root = _overlay(tmp_path)
    assert compiles(series, root) == () and preprocesses(series, root) == ()


def test_python_that_no_longer_parses_is_a_danger(tmp_path: Path) -> None:
    series, root = _overlay(tmp_path)
    (root / "kernels/jit.py").write_text("def (:\n")
    assert [(f.severity, f.file) for f in compiles(series, root)] == [("danger", "kernels/jit.py")]


def test_a_header_that_one_pass_cannot_read_is_a_danger(tmp_path: Path) -> None:
    series, root = _overlay(tmp_path)
    header = root / "kernels/include/fused.cuh"
    good = header.read_text()
    header.write_text(good + "#include <no/such/file.h>\n#if __CUDA_ARCH__ < 900\n#error old\n#endif\n")
    assert preprocesses(series, root) == ()
    header.write_text(good + "#if __CUDA_ARCH__ == 1200\n#if (\n#endif\n#endif\n")
    assert {f.what.split(" for ")[1] for f in preprocesses(series, root)} == {"sm_120 after the edit."}


def test_an_import_that_only_the_edit_breaks_is_a_danger(tmp_path: Path) -> None:
    site, overlay = tmp_path / "site", tmp_path / "overlay"
    install(site, "a", "1", {"a.py": b"x = 1\n", "b.py": b"import no_such_module\n", "c.py": b"x = 1\n"})
    install(overlay, "a", "1", {"a.py": b"import no_such_module\n", "b.py": b"import no_such_module\n", "c.py": b""})
    series = Series("s", Target(120), (), {}, {"a.py": "", "b.py": "", "c.py": "", "d.cuh": ""})
    base = {"PATH": os.environ["PATH"]}
    found = imports(
        series, Path(sys.executable), {**base, "PYTHONPATH": str(overlay)}, {**base, "PYTHONPATH": str(site)}
    )
    assert [(f.severity, f.file) for f in found] == [("danger", "a.py"), ("note", "b.py")]
    assert "no_such_module" in found[0].evidence
    only = replace(series, after={"d.cuh": ""})
    assert imports(only, Path(sys.executable), base, base) == ()


def test_a_finder_that_comes_before_the_path_is_a_danger(tmp_path: Path) -> None:
    """As the editable installations of some build backends have it."""
    site, overlay = tmp_path / "site", tmp_path / "overlay"
    finder = (
        b"import importlib.util, sys\n"
        b"class Redirect:\n"
        b"    @staticmethod\n"
        b"    def find_spec(name, path=None, target=None):\n"
        b"        return importlib.util.spec_from_file_location(name, %r) if name == 'a' else None\n"
        b"sys.meta_path.insert(0, Redirect)\n" % str(site / "a.py")
    )
    install(site, "a", "1", {"a.py": b"x = 1\n", "pkg/__init__.py": b"print('noise')\n"})
    install(overlay, "a", "1", {"a.py": b"x = 1\n", "pkg/__init__.py": b"print('noise')\n", "sitecustomize.py": finder})
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(overlay)}
    for name, count in (("a.py", 1), ("pkg/__init__.py", 0)):
        series = Series("s", Target(120), (), {}, {name: ""})
        found = imports(series, Path(sys.executable), environment, environment, overlay)
        assert len(found) == count
        assert all(f.severity == "danger" and "not from the edited copy" in f.what for f in found)
