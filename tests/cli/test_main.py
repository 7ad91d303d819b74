"""Bad input gives one clear sentence, the right exit code and no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ungate.cli.main import main


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ungate: ") and "Traceback" not in err
    return err


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 3
    assert "Commands:" in capsys.readouterr().err


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "scann" in _refused(capsys, "scann")


@pytest.mark.parametrize("words", [["scan", "--target", "sm_120"], ["lint"], ["known"]])
def test_an_empty_name_is_not_the_folder_one_stands_in(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "name" in _refused(capsys, *words, "")
    assert "name" in _refused(capsys, *words, "  ")


def test_nothing_compared_is_not_told_as_no_contradiction(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/__init__.py").write_text("x = 1\n")
    assert main(["lint", str(tmp_path)]) == 0
    assert "Nothing was compared" in capsys.readouterr().out


def test_an_unknown_recipe_names_those_there_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = _refused(capsys, "run", "no-such-recipe", "--site", str(tmp_path), "--target", "sm_120", "--until", "patch")
    assert "no-such-recipe" in said and "flashinfer-allreduce-fusion" in said


def test_an_unknown_target_names_the_forms(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recipe = "flashinfer-allreduce-fusion"
    said = _refused(capsys, "run", recipe, "--site", str(tmp_path), "--target", "sm_999", "--until", "patch")
    assert "sm_999" in said and "--target sm_120" in said


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recipe = "flashinfer-allreduce-fusion"
    missing = str(tmp_path / "nowhere")
    said = _refused(capsys, "run", recipe, "--site", missing, "--target", "sm_120", "--until", "patch")
    assert missing in said


def test_a_package_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    information = tmp_path / "site" / "other-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    recipe = "flashinfer-allreduce-fusion"
    site = str(tmp_path / "site")
    said = _refused(capsys, "run", recipe, "--site", site, "--target", "sm_120", "--until", "patch")
    assert "flashinfer-python" in said


def test_a_broken_recipe_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recipe = tmp_path / "broken.toml"
    recipe.write_text('name = "x\n')
    said = _refused(capsys, "run", str(recipe), "--site", str(tmp_path), "--target", "sm_120", "--until", "patch")
    assert "broken.toml" in said


def test_a_server_is_needed_and_said_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recipe = "flashinfer-allreduce-fusion"
    assert "'--'" in _refused(capsys, "run", recipe, "--site", str(tmp_path), "--target", "sm_120")
    assert not (tmp_path / "state").exists()


def test_a_variable_without_a_value(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recipe = "flashinfer-allreduce-fusion"
    said = _refused(capsys, "run", recipe, "--site", str(tmp_path), "--target", "sm_120", "--env", "NAME")
    assert "NAME=VALUE" in said


def test_the_json_of_an_empty_ledger_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_with_130_and_a_sentence(tmp_path: Path, number: signal.Signals) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    os.mkfifo(slow / "wait.py")  # reading it waits for ever
    code = "import sys; from ungate.cli.main import main; print('up', flush=True); sys.exit(main(sys.argv[1:]))"
    recipe = slow / "recipe.toml"
    os.mkfifo(recipe)
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", str(recipe), "--target", "sm_120", "--until", "patch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "UNGATE_STATE_DIR": str(tmp_path / "s")},
    )
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    time.sleep(0.5)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.lstrip().startswith("ungate: Interrupted") and "Traceback" not in err


def _lab(tmp_path: Path) -> str:
    from ungate.lab.install import install

    return str(install(tmp_path / "lab").site)


_SWALLOWS = """
import os, signal, sys, time
from ungate.cli import doctor
from ungate.cli.main import main

class Swallows:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))

def work(*_, **__):
    try:
        Swallows()  # what is raised in a destructor is printed and dropped
        time.sleep(30)
    finally:
        time.sleep(5)  # a clean-up that is not cut short
        print("cleaned up", flush=True)

doctor.doctor.callback = work
sys.exit(main(["doctor"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_python_drops_is_raised_again(number: signal.Signals) -> None:
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _SWALLOWS, str(int(number))],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == 130 and done.stdout == "cleaned up\n", done.stderr
    assert time.monotonic() - begun < 30 and "Interrupted" in done.stderr


_IN_GENERATED_CODE = """
import os, signal, sys
from ungate.cli import doctor
from ungate.cli.main import main

def work(*_, **__):
    exec("os.kill(os.getpid(), signal.SIGINT)")  # as while a dataclass is defined

doctor.doctor.callback = work
sys.exit(main(["doctor"]))
"""


def test_an_interrupt_of_generated_code_leaves_with_the_code_too(tmp_path: Path) -> None:
    (tmp_path / "interrupted_there.py").write_text(_IN_GENERATED_CODE)
    done = subprocess.run(
        [sys.executable, "-m", "interrupted_there"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == 130 and "Interrupted" in done.stderr


def test_a_fault_of_its_own_is_no_finding(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **keywords: object) -> None:
        raise LookupError("nobody thought of it")

    monkeypatch.setattr("ungate.cli.main.app.main", broken)
    assert main(["ledger"]) == 3
    err = capsys.readouterr().err
    assert "nobody thought of it" in err and err.endswith("ungate doctor --json\n")


def test_a_closed_stdout_is_no_traceback(tmp_path: Path) -> None:
    command = f'exec "{sys.executable}" -m ungate scan "{_lab(tmp_path)}" --target sm_120 >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_finding(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ungate", "scan", _lab(tmp_path), "--target", "sm_120"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(100) == 0
    assert "Traceback" not in said


def test_why_takes_a_servers_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--enable-fused-allreduce", "--site", _lab(tmp_path), "--target", "sm_120"]) == 0
    assert "closed" in capsys.readouterr().out


def test_a_filter_does_not_change_what_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = _lab(tmp_path)
    main(["scan", lab, "--target", "sm_120"])
    whole = capsys.readouterr().out.splitlines()
    main(["scan", lab, "--target", "sm_120", "--closed"])
    closed = capsys.readouterr().out.splitlines()
    counts = [next(line for line in lines if "source files" in line).partition(": ")[2] for lines in (whole, closed)]
    assert counts[0] == counts[1] and " 0 open" not in counts[0]


def test_a_cache_that_cannot_be_written_is_a_warning_beside_the_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/__init__.py").write_text("x = 1\n")
    (tmp_path / "file").touch()
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "file"))
    assert main(["scan", str(tmp_path), "--target", "sm_120", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["gates"] == []
    assert err.count("warning: The cache in") == 1 and "export UNGATE_CACHE_DIR=DIR" in err


@pytest.mark.parametrize(
    ("word", "told"),
    [
        pytest.param("flashinfr-allreduce-fusion", "ungate known flashinfer-allreduce-fusion", id="recipe"),
        pytest.param("allredcue", "ungate known allreduce", id="word"),
    ],
)
def test_a_misspelt_feature_is_not_told_as_one_of_which_nothing_is_known(
    word: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in _refused(capsys, "known", word)
    assert main(["known", "xyzzy"]) == 0
    assert "Nothing is known of 'xyzzy'" in capsys.readouterr().out


def test_a_ledger_that_cannot_be_read_hides_no_public_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "file"))
    assert main(["known", "flashinfer-allreduce-fusion", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["own"] is None and json.loads(out)["public"]
    assert "Own runs are not known" in err and "UNGATE_STATE_DIR=DIR" in err
