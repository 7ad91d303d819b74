"""Another release or environment as a further arm: what its files say, and that it runs from its own packages."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ungate.cli._campaign import variants
from ungate.errors import Refusal
from ungate.host.environment import resolve
from ungate.host.progress import silent
from ungate.lab import install as lab_stack
from ungate.lab.install import install
from ungate.model import Decision, Target, Variant
from ungate.pipeline import Request, new_folder, run
from ungate.pipeline.arms import arms
from ungate.pipeline.elsewhere import swapped
from ungate.pipeline.records import Elsewhere, Records
from ungate.recipes import load

LATER = {
    "labkernels/jit/comm.py": ("[9, 10]", "[9, 10, 12]"),
    "labkernels/data/include/labkernels/comm/allreduce.h": (" && __CUDA_ARCH__ < 1200", ""),
    "labkernels/data/include/labkernels/comm/allreduce_fusion.h": (" && __CUDA_ARCH__ < 1200", ""),
    "labengine/communicator.py": ("is_sm100_supported", "is_sm120_supported"),
    "labkernels/__init__.py": ("0.3.0", "0.4.0"),
    "lab_kernels-0.3.0.dist-info/METADATA": ("0.3.0", "0.4.0"),
}


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The lab as it is, and a later release of it that lets sm_120 through."""
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    old, new = install(tmp_path / "old").site, install(tmp_path / "new").site
    for name, (before, after) in LATER.items():
        text = (new / name).read_text()
        assert before in text, name
        (new / name).write_text(text.replace(before, after))
    (new / "lab_kernels-0.3.0.dist-info").rename(new / "lab_kernels-0.4.0.dist-info")
    return old, new


def _request(site: Path, until: str, **changes: Any) -> Request:
    request = Request(
        load("lab-allreduce-fusion"),
        resolve(site, None),
        Target(120),
        new_folder("t"),
        until,
        variables={"LAB_CUDA_ARCH_LIST": "12.0", "LAB_KERNELS_CACHE": str(site.parent / "kernels")},
    )
    return replace(request, **changes)


def _venv(folder: Path, site: Path) -> Path:
    """The interpreter of a virtual environment that has the packages of a folder and numpy and aiohttp."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    (packages,) = folder.glob("lib/python3*/site-packages")
    paths = [str(site), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages / "own.pth").write_text("\n".join(paths) + "\n")
    return folder / "bin" / "python"


def test_a_release_that_lets_the_target_through_is_told_before_anything_is_opened(sites: tuple[Path, Path]) -> None:
    old, new = sites
    further = variants(load("lab-allreduce-fusion"), (), (f"later={new}", f"same={old}"), plain=False)
    outcome = run(_request(old, "patch", arms=further))
    later, same = outcome.records.elsewhere
    assert later.packages == (("lab-kernels", "0.4.0"), ("lab-engine", "0.5.0"))
    assert later.usable and later.closed == () and later.flag is True
    assert not same.usable and len(same.closed) == 4 and "closed for sm_120 in 4 places" in same.said
    assert outcome.document["next"][0].startswith("later needs no edit")
    assert not any("same needs" in sentence for sentence in outcome.document["next"])
    assert [each["arm"] for each in outcome.document["elsewhere"]] == ["later", "same"]


def test_the_feature_is_switched_on_where_it_is_let_through_and_nowhere_else(sites: tuple[Path, Path]) -> None:
    old, new = sites
    recipe = load("lab-allreduce-fusion")
    request = _request(old, "patch", command=("python3", "-m", "labengine.launch"))
    pairs = (f"later={new}", f"same={old}")
    asked = replace(request, arms=variants(recipe, (), pairs, plain=False))
    records = run(replace(asked, command=())).records
    _, _, later, same = arms(asked, records, silent)
    assert later.arguments == recipe.arguments and same.arguments == ()
    assert later.environment["PYTHONPATH"] == str(new), "the baseline's packages must not come before its own"
    assert later.environment["LAB_KERNELS_CACHE"] != request.variables["LAB_KERNELS_CACHE"]
    assert later.environment["LAB_KERNELS_CACHE"] != same.environment["LAB_KERNELS_CACHE"]
    plain = arms(replace(asked, arms=variants(recipe, (), pairs, plain=True)), records, silent)
    assert [arm.arguments for arm in plain[2:]] == [(), ()]


def test_another_interpreter_runs_the_same_command_with_its_own_packages(
    sites: tuple[Path, Path], tmp_path: Path
) -> None:
    old, new = sites
    python = _venv(tmp_path / "venv", new)
    request = _request(old, "patch", arms=variants(load("lab-allreduce-fusion"), (), (f"v={python}",), plain=False))
    records = run(request).records
    assert records.elsewhere[0].packages[0] == ("lab-kernels", "0.4.0")
    arm = arms(replace(request, command=("/usr/bin/python3.12", "-m", "labengine.launch")), records, silent)[2]
    assert arm.command == (str(python), "-m", "labengine.launch")
    done = subprocess.run(
        [arm.command[0], "-c", "import labkernels; print(labkernels.__version__)"],
        env=dict(arm.environment),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "0.4.0", done.stderr


def test_a_program_of_an_environment_is_looked_for_beside_its_interpreter(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.touch()
    (tmp_path / "vllm").touch()
    assert swapped(("/opt/old/bin/vllm", "serve", "M"), python) == (str(tmp_path / "vllm"), "serve", "M")
    assert swapped(("python3.12", "-m", "x"), python) == (str(python), "-m", "x")
    assert swapped(("python3.12", "-m", "x"), tmp_path) == (), "a folder of packages runs the user's own command"
    with pytest.raises(Refusal, match="has no program of that name"):
        swapped(("sglang", "serve"), python)


def test_packages_that_are_not_there_leave_the_feature_off(sites: tuple[Path, Path], tmp_path: Path) -> None:
    old, _ = sites
    (tmp_path / "empty" / "other").mkdir(parents=True)
    (tmp_path / "empty" / "other" / "__init__.py").touch()
    further = (Variant("gone", place=tmp_path / "empty", feature=True),)
    request = _request(old, "check", arms=further)
    records = run(request).records
    assert records.elsewhere[0].packages == () and "lab-kernels" in records.elsewhere[0].said
    assert arms(replace(request, command=("python",)), records, silent)[2].arguments == ()
    unknown = Records(elsewhere=(Elsewhere("gone", (), (), None, ""),))
    assert arms(replace(request, command=("python",)), unknown, silent)[2].arguments == request.recipe.arguments


def test_siblings_that_a_release_leaves_behind_are_named(sites: tuple[Path, Path]) -> None:
    """vllm-project/vllm#44808 compares two releases of FlashInfer alone: its sibling packages must go along."""
    old, new = sites
    for site, version in ((old, "0.6.8"), (new, "0.6.12")):
        for name, own in (("flashinfer-python", version), ("flashinfer-cubin", "0.6.8")):
            info = site / f"{name.replace('-', '_')}-{own}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {own}\n")
    records = run(_request(old, "check", arms=(Variant("later", place=new), Variant("same", place=old)))).records
    later, same = records.elsewhere
    assert "must be of one version and are not: flashinfer-python 0.6.12, flashinfer-cubin 0.6.8" in later.said
    assert "must be of one version" not in same.said


@pytest.mark.parametrize(
    ("releases", "others", "said"),
    [
        (("lab>=1",), (), "does not name one release"),
        ((), ("later",), "does not name an arm"),
        ((), ("Later=/x",), "does not name an arm"),
        ((), ("later=/no/such/python",), "does not exist"),
        ((), (f"candidate={sys.executable}",), "Two arms of this run would be named 'candidate'"),
        (("lab==1", "lab==1"), (), "Two arms"),
    ],
)
def test_what_is_no_arm_is_refused(releases: tuple[str, ...], others: tuple[str, ...], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        variants(load("lab-allreduce-fusion"), releases, others, plain=False)


@pytest.mark.parametrize("command_given", [True, False])
def test_an_open_feature_is_measured_by_its_switch_and_only_told_without_a_server(
    sites: tuple[Path, Path], command_given: bool
) -> None:
    old, _ = sites
    command = ("python", "-m", "labengine.launch") if command_given else ()
    request = _request(old, "patch", target=Target(90), command=command)
    records = run(request).records
    assert ("nothing to open" in records.stopped) is not command_given
    assert records.series is None and records.overlay is None
    if command_given:
        baseline, candidate = arms(request, records, silent)
        assert (baseline.arguments, candidate.arguments) == ((), request.recipe.arguments)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_later_release_is_judged_beside_the_opened_one(sites: tuple[Path, Path], tmp_path: Path) -> None:
    """Budget: four minutes on 2 quiet cores."""
    old, new = sites
    python = _venv(tmp_path / "venv", new)
    further = variants(load("lab-allreduce-fusion"), (), (f"folder={new}", f"venv={python}"), plain=False)
    lab = install(old)
    recipe = load("lab-allreduce-fusion")
    request = _request(
        old,
        "judge",
        recipe=replace(recipe, cells=recipe.cells[:1]),
        arms=further,
        command=lab_stack.command(lab, port=0, tp=2),
        pairs=2,
        load_s=2.0,
        start_deadline_s=120.0,
    )
    records = run(request).records
    for name in ("candidate", "folder", "venv"):
        held = {guard.name: guard for guard in records.guards if guard.arm == name}
        assert held["the candidate starts"].holds and held["outputs are right"].holds, held
        values = [sample.value for sample in records.samples if sample.arm == name]
        assert any(values) and any(verdict.arm == name for verdict in records.verdicts)
    for name in ("folder", "venv"):
        (differs,) = [guard for guard in records.guards if guard.arm == name and "differs" in guard.name]
        assert "what the recipe opens runs there" in differs.evidence and "lab-kernels==0.4.0" in differs.evidence
    assert all(isinstance(verdict.decision, Decision) for verdict in records.verdicts)
    assert os.environ.get("PYTHONPATH") is None
