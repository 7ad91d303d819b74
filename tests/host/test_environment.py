from __future__ import annotations

import os
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.host.environment import resolve


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """A real virtual environment without pip."""
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    return tmp_path / "venv" / "bin" / "python"


def site_of(python: Path) -> Path:
    (found,) = (python.parent.parent / "lib").glob("python3*/site-packages")
    return found


def refusal(site: Path | None, python: Path | None) -> str:
    with pytest.raises(Refusal) as caught:
        resolve(site, python)
    assert caught.value.what.endswith(".")
    assert caught.value.next_step
    return str(caught.value)


def test_without_options_it_is_ungates_own() -> None:
    environment = resolve(None, None)
    assert environment.python == Path(sys.executable)
    assert any((root / "pytest").is_dir() for root in environment.roots)
    assert all(root.is_dir() for root in environment.roots)


def test_a_folder_of_packages(make_site: Callable[..., Path]) -> None:
    site = make_site({"demo==1.0": {"demo/__init__.py": ""}})
    assert resolve(site, None).roots == (site,)
    assert resolve(site, None).python is None


def test_a_folder_without_dist_info_but_with_a_package(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "__init__.py").touch()
    assert resolve(tmp_path, None).roots == (tmp_path,)


def test_a_relative_folder_is_made_absolute(make_site: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_site({"demo==1.0": {"demo/__init__.py": ""}})
    monkeypatch.chdir(site.parent)
    assert resolve(Path("site"), None).roots == (site,)


def test_both_options_take_the_folder_and_keep_the_interpreter(
    make_site: Callable[..., Path], interpreter: Path
) -> None:
    site = make_site({"demo==1.0": {"demo/__init__.py": ""}})
    environment = resolve(site, interpreter)
    assert (environment.roots, environment.python) == ((site,), interpreter)


def test_an_interpreter_is_asked_and_pth_files_count(interpreter: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (site_of(interpreter) / "more.pth").write_text(f"{elsewhere}\nimport sys; print('a .pth that talks')\n")
    environment = resolve(None, interpreter)
    assert environment.python == interpreter
    assert site_of(interpreter) in environment.roots
    assert elsewhere in environment.roots


def test_pythonpath_counts_and_the_working_folder_does_not(
    interpreter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = tmp_path / "added"
    added.mkdir()
    (added / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(added)
    assert added not in resolve(None, interpreter).roots
    (added / "json.py").unlink()
    monkeypatch.setenv("PYTHONPATH", str(added))
    assert resolve(None, interpreter).roots[0] == added


def test_a_virtual_environment_is_not_resolved_to_its_base(interpreter: Path) -> None:
    assert interpreter.is_symlink()
    assert resolve(None, interpreter).python == interpreter


@pytest.mark.parametrize("kind", ["missing", "file", "empty", "environment"])
def test_a_bad_folder_is_refused(kind: str, tmp_path: Path, interpreter: Path) -> None:
    path = tmp_path / "x"
    if kind == "missing":
        assert "does not exist" in refusal(path, None)
    elif kind == "file":
        path.touch()
        assert "is a file" in refusal(path, None)
    elif kind == "empty":
        path.mkdir()
        assert "holds no Python package" in refusal(path, None)
    else:
        assert f"Pass: --site {site_of(interpreter)}" in refusal(interpreter.parent.parent, None)


def test_a_folder_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    assert "may not be read" in refusal(tmp_path, None)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        pytest.param(None, 0, "does not exist", id="missing"),
        pytest.param("", 0o644, "may not be executed", id="not executable"),
        pytest.param("plain text", 0o755, "is no Python interpreter", id="no program"),
        pytest.param(
            "#!/bin/sh\necho hello >&2\nexit 3\n", 0o755, "code 3 and named no packages", id="another program"
        ),
        pytest.param("#!/bin/sh\necho 'ungate-sys-path:{broken'\n", 0o755, "is no Python interpreter", id="a liar"),
    ],
)
def test_what_is_no_interpreter_is_refused(tmp_path: Path, text: str | None, mode: int, words: str) -> None:
    path = tmp_path / "python"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    assert words in refusal(None, path)


def test_the_folder_of_an_environment_is_refused_with_its_interpreter(interpreter: Path) -> None:
    assert f"Pass: --python {interpreter}" in refusal(None, interpreter.parent.parent)


def test_an_interpreter_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\nsleep 60\n")
    path.chmod(0o755)
    monkeypatch.setattr("ungate.host.environment._DEADLINE_S", 0.3)
    assert "did not name its packages" in refusal(None, path)
