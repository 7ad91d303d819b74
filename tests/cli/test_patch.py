"""``ungate patch`` as a person or a Dockerfile uses it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.patch.site import install, story

from ungate import recipes
from ungate.cli.main import main
from ungate.judge.policy import dumps
from ungate.lab.install import install as install_lab
from ungate.model import Cell, Decision, Place, Policy, PolicyRow, Target
from ungate.patch import open_series
from ungate.patch.bundle import write_bundle
from ungate.patch.content import changed

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    story(folder)
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    packages, gates = story(tmp_path / "elsewhere")
    series = open_series("story", gates, Target(120), packages)
    contents = {file: (old, new) for file, (_, old, new) in changed(series, packages).items()}
    path = tmp_path / "story.toml"
    path.write_text(write_bundle(series, contents, {p.name: p.version for p in packages}), encoding="utf-8")
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], site: Path) -> Run:
    def go(*arguments: str) -> tuple[int, str, str]:
        code = main(["patch", *arguments, "--site", str(site)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return go


def _files(site: Path) -> dict[str, bytes]:
    return {str(p.relative_to(site)): p.read_bytes() for p in sorted(site.rglob("*")) if p.is_file()}


def test_a_bundle_goes_in_and_comes_out(run: Run, site: Path, bundle: Path) -> None:
    before = _files(site)
    code, out, _ = run("push", str(bundle))
    assert code == 0 and "3 files" in out and "sm_121 rides along" in out and f"ungate patch pop --site {site}" in out
    assert b"[9, 10, 12]" in (site / "kernels/jit.py").read_bytes()
    code, out, _ = run("push", str(bundle))
    assert code == 0 and out == "Nothing was changed by 'story': it is pushed already.\n"
    assert run("applied") == (0, "story\n", "")
    code, out, _ = run("pop")
    assert code == 0 and "3 files as before" in out
    assert _files(site) == before
    code, _, err = run("pop")
    assert code == 3 and "No series is pushed" in err


def test_a_second_push_of_other_bounds_does_not_claim_to_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = tmp_path / "lab"
    install_lab(lab)
    name = "lab-allreduce-fusion"
    policy = tmp_path / "policy.toml"
    row = PolicyRow(Cell(4, 32, 16), Decision.KEEP, "faster")
    policy.write_text(dumps(Policy(name, "sm_120", (row,), Place(4, None, ()))))
    assert main(["patch", "push", name, "--target", "sm_120", "--site", str(lab)]) == 0
    capsys.readouterr()
    before = _files(lab)
    assert main(["patch", "push", "--policy", str(policy), "--site", str(lab)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "it is pushed already" not in out and "For other bounds or another target, pop that one first: " in out
    assert _files(lab) == before


def test_a_policy_of_a_recipe_of_ones_own_is_pushed_with_that_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab, recipe, policy = tmp_path / "lab", tmp_path / "my own.toml", tmp_path / "policy.toml"
    install_lab(lab)
    came = Path(recipes.__file__).parent / "lab-allreduce-fusion.toml"
    recipe.write_text(came.read_text().replace('"lab-allreduce-fusion"', '"mine"'))
    row = PolicyRow(Cell(4, 32, 16), Decision.KEEP, "faster")
    policy.write_text(dumps(Policy("mine", "sm_120", (row,), Place(4, None, ()))))
    push = ["patch", "push", "--policy", str(policy), "--site", str(lab)]
    assert main(push) == 3
    assert "Name its file too: ungate patch push RECIPE.toml --policy" in capsys.readouterr().err
    assert main([*push, "lab-allreduce-fusion"]) == 3
    assert "is about mine, and lab-allreduce-fusion about lab-allreduce-fusion" in capsys.readouterr().err
    assert main([*push, str(recipe)]) == 0
    assert "Pushed into" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "{", "null", "[]", '{"last": "", "series": [{"name": 1}]}', "[" * 50_000])
def test_a_damaged_journal_is_a_sentence(content: str, run: Run, bundle: Path, tmp_path: Path) -> None:
    run("push", str(bundle))
    for name in ("stack.json", "pending.json"):
        place = next((tmp_path / "state").rglob("stack.json")).with_name(name)
        kept = place.read_bytes() if place.exists() else None
        place.write_text(content)
        for words in (["status"], ["pop"], ["push", str(bundle)], ["recover"]):
            code, _, err = run(*words)
            assert "Traceback" not in err and (code == 0 or (code == 3 and err.startswith("ungate: "))), err
        assert run("pop")[0] == 3
        if kept is None:
            place.unlink()
        else:
            place.write_bytes(kept)
    assert run("pop")[0] == 0


def test_a_diff_in_a_pipe_is_taken_by_git(run: Run, site: Path, bundle: Path) -> None:
    code, out, err = run("diff", str(bundle))
    assert code == 0 and out.startswith("diff --git a/engine/fuse.py b/engine/fuse.py\n")
    assert "story for sm_120" in err
    subprocess.run(["git", "init", "-q", "."], cwd=site, check=True)
    subprocess.run(["git", "apply", "--check", "-"], cwd=site, input=out.encode(), check=True)
    run("push", str(bundle))
    assert run("diff")[1] == out


def test_status_tells_pristine_from_pushed_from_changed(run: Run, site: Path, bundle: Path) -> None:
    code, out, _ = run("status", "kernels", "engine")
    assert code == 0 and out.count("pristine    ") == 2 and "is as it was installed" in out
    run("push", str(bundle))
    (site / "kernels/predicates.py").write_text("# mine\n")
    code, out, _ = run("status")
    assert code == 0
    assert "applied     story for sm_120, 3 files of engine 2.0, kernels 1.0" in out
    assert "engine/fuse.py: changed by the series 'story'" in out
    assert "kernels/predicates.py: changed\n" in out and "is not as it was installed" in out
    found: dict[str, Any] = json.loads(run("status", "--json")[1])
    assert found["pristine"] is False and found["series"][0]["standing"]["state"] == "applied"
    (site / "kernels/jit.py").write_text("# mine too\n")
    out = run("status")[1]
    assert "disturbed   story" in out
    assert "kernels/jit.py is neither as installed nor as the series wrote it" in out
    assert "kernels/jit.py: changed by the series 'story', and then by someone else" in out
    (site / "kernels/jit.py").unlink()
    assert "kernels/jit.py: missing, and the series 'story' changed it" in run("status", "--reread")[1]


def test_a_pop_does_not_claim_files_that_an_upgrade_replaced(run: Run, site: Path, bundle: Path) -> None:
    assert run("push", str(bundle))[0] == 0
    install(site, "engine", "2.0", {"engine/__init__.py": b"", "engine/fuse.py": b"fuse = None\n"})
    code, out, _ = run("pop")
    assert code == 0 and "2 files as before, 1 file installed anew or removed since the push and left alone" in out
    assert (site / "engine/fuse.py").read_bytes() == b"fuse = None\n"


def test_what_cannot_be_compared_is_unknown(run: Run, site: Path, tmp_path: Path) -> None:
    info = next(site.glob("kernels-*.dist-info"))
    (info / "direct_url.json").write_text(json.dumps({"url": tmp_path.as_uri(), "dir_info": {"editable": True}}))
    code, out, _ = run("status", "kernels", "engine")
    assert code == 0 and out.startswith("unknown     kernels 1.0: it could not be compared")
    assert "pristine    engine" in out and "cannot be compared with what was installed" in out
    assert json.loads(run("status", "kernels", "engine", "--json")[1])["pristine"] is None


def test_an_environment_that_was_not_looked_at_is_neither_pristine_nor_changed(run: Run) -> None:
    code, out, _ = run("status", "--json")
    found: dict[str, Any] = json.loads(out)
    assert code == 0 and found["pristine"] is None and found["packages"] == []


def test_a_foreign_patch_is_pushed_and_popped(run: Run, site: Path, tmp_path: Path) -> None:
    before = _files(site)
    patch = tmp_path / "fix.patch"
    patch.write_text(
        "--- a/python/kernels/jit.py\n+++ b/python/kernels/jit.py\n@@ -2,4 +2,4 @@\n \n \n def module():\n"
        "-    return flags(supported_major_versions=[9, 10])\n+    return flags(supported_major_versions=[9])\n"
    )
    code, out, _ = run("import", str(patch), "--dry-run")
    assert code == 0 and "+    return flags(supported_major_versions=[9])" in out and _files(site) == before
    code, out, _ = run("import", str(patch))
    assert code == 0 and "Pushed 'fix': 1 file in" in out
    code, out, err = run("import", str(patch))
    assert code == 0 and "already" in out + err
    run("pop")
    assert _files(site) == before
    patch.write_text(patch.read_text().replace("/jit.py", "/../../jit.py"))
    code, _, err = run("import", str(patch))
    assert code == 3 and "leads out of the packages" in err and "Traceback" not in err


def test_export_of_what_is_pushed_is_the_bundle_again(run: Run, site: Path, bundle: Path, tmp_path: Path) -> None:
    run("push", str(bundle))
    again = tmp_path / "again.toml"
    assert run("export", "story", "--bundle", str(again))[0] == 0
    assert again.read_text() == bundle.read_text()
    diff = tmp_path / "story.patch"
    assert run("export", "story", "--output", str(diff))[0] == 0
    assert diff.read_text() == run("diff")[1]


def test_refresh_and_recover_say_what_they_did(run: Run, site: Path, bundle: Path) -> None:
    run("push", str(bundle))
    assert run("refresh")[1] == "'story' had nothing to take in.\n"
    (site / "kernels/jit.py").write_text("# mine\n")
    assert run("refresh")[1] == "'story' now takes kernels/jit.py as edited.\n"
    assert run("recover") == (0, "Nothing was cut short here.\n", "")
    from ungate.patch.state import journal_of, read_stack, write_stack

    journal = journal_of(site)
    journal.begin("push of 'lost'", site, (), write_stack(read_stack(journal)))
    assert "Run: ungate patch recover" in run("status")[1]
    code, _, err = run("pop")
    assert code == 3 and "ungate patch recover" in err
    assert "The push of 'lost'" in run("recover")[1]
    assert run("pop", "--all")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("push", "no-such-recipe"), "no-such-recipe"),
        (("import", "no.patch"), "There is no patch file"),
        (("diff", "no-such-recipe", "--target", "sm_120"), "no-such-recipe"),
        (("export", "no-such-recipe", "--target", "sm_120"), "no-such-recipe"),
        (("refresh",), "No series is pushed"),
        (("status", "no-such-dist"), "is not installed"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_3(run: Run, site: Path, arguments: tuple[str, ...], said: str) -> None:
    before = _files(site)
    code, out, err = run(*arguments)
    assert code == 3 and out == "" and said in err and "Traceback" not in err
    assert _files(site) == before


def test_a_bundle_that_does_not_fit_changes_nothing(run: Run, site: Path, bundle: Path) -> None:
    for info in site.glob("kernels-*.dist-info"):
        subprocess.run(["rm", "-r", str(info)], check=True)
    install(site, "kernels", "1.1", {"kernels/jit.py": b"# new\n"})
    before = _files(site)
    code, _, err = run("push", str(bundle))
    assert code == 3 and "nothing was changed" in err and "kernels 1.0" in err
    assert _files(site) == before


def test_a_policy_does_not_choose_which_file_is_read(run: Run, site: Path, tmp_path: Path) -> None:
    before = _files(site)
    code, out, err = run("push")
    assert code == 3 and out == "" and "a policy: --policy FILE" in err
    stranger = tmp_path / "stranger.toml"
    (tmp_path / "other.toml").write_text("a recipe of somebody else")
    stranger.write_text(
        'format = 1\nfeature = "other.toml"\ntarget = "sm_120"\n[[cell]]\nconcurrency = 1\nprompt_tokens = 1\n'
        'output_tokens = 1\ndecision = "keep"\n'
    )
    code, _, err = run("push", "--policy", str(stranger))
    assert code == 3 and "no recipe that comes with ungate" in err
    code, _, err = run("push", "--policy", str(tmp_path / "none.toml"))
    assert code == 3 and "none.toml" in err and "Traceback" not in err
    assert _files(site) == before


_POLICY = """format = 1
feature = "flashinfer-allreduce-fusion"
target = "sm_120"
arguments = ["--enable-flashinfer-allreduce-fusion"]
[packages]
sglang = "{version}"
[place]
tensor_parallel = 4
"""


@pytest.mark.wheels
def test_a_policy_is_written_into_the_real_packages(
    capsys: pytest.CaptureFixture[str], story_site: Path, tmp_path: Path
) -> None:
    cells = "".join(
        f'[[cell]]\nconcurrency = {count}\nprompt_tokens = 1024\noutput_tokens = 64\ndecision = "{decision}"\n'
        for count, decision in ((1, "keep"), (16, "keep"), (64, "revert"))
    )
    fitting, other = tmp_path / "fitting.toml", tmp_path / "other.toml"
    fitting.write_text(_POLICY.format(version="0.5.9") + cells)
    other.write_text(_POLICY.format(version="0.5.8") + cells)
    site = ("--site", str(story_site))
    before = _files(story_site)
    assert main(["patch", "push", "--policy", str(other), *site]) == 3
    assert "measured with sglang 0.5.8, and 0.5.9 is installed" in capsys.readouterr().err
    assert main(["patch", "push", "--policy", str(fitting), "--target", "sm_90", *site]) == 3
    assert "measured on sm_120, not on sm_90" in capsys.readouterr().err
    assert main(["patch", "push", "--policy", str(fitting), *site, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["switched_on_by"] == ["--enable-flashinfer-allreduce-fusion"]
    assert len(told["unsaid"]) == 1 and "4 ranks" in told["unsaid"][0], "the flag steps over the default's gate"
    communicator = (story_site / "sglang/srt/layers/communicator.py").read_text()
    assert "_is_sm100_supported or (is_sm120_supported() and 1 <= batch_size <= 16))" in communicator
    assert main(["patch", "pop", *site]) == 0
    assert _files(story_site) == before
