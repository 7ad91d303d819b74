"""``ungate build`` from its options to the machine code, on a small package and on the real FlashInfer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.build import sass
from ungate.cli.main import main
from ungate.host import index
from ungate.host.packages import Package

RECIPE = """
name = "fused"
summary = "The fused kernel."
packages = ["flashinfer-python"]
entries = ["flashinfer.jit.comm:gen_fused_module"]
build = "flashinfer.jit.comm:gen_fused_module"
"""


@pytest.fixture
def recipe(
    tmp_path: Path, package: Package, companion: Callable[[str], Package], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A recipe for the small package, which is made an installed distribution, and so is its companion."""
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    companion("apache-tvm-ffi").root.joinpath("tvm_ffi").rename(package.root / "tvm_ffi")
    for name, version in (("flashinfer_python", "0.6.3"), ("apache_tvm_ffi", "0.1.9")):
        info = package.root / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name.replace('_', '-')}\nVersion: {version}\n")
        top = "flashinfer" if name.startswith("flash") else "tvm_ffi"
        (info / "RECORD").write_text(f"{top}/__init__.py,,\n")
    (tmp_path / "fused.toml").write_text(RECIPE)
    return tmp_path / "fused.toml"


def build(recipe: Path, package: Package, *arguments: str) -> int:
    return main(["build", str(recipe), "--site", str(package.root), "--target", "sm_120", *arguments])


def test_contradicting_options_are_refused(recipe: Path, package: Package, capsys: pytest.CaptureFixture[str]) -> None:
    assert build(recipe, package, "--as-installed", "--open", "abc") == 3
    assert "--as-installed opens nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param('build = "flash', '# build = "flash', "names no build", id="no build"),
        pytest.param('build = "flashinfer.', 'build = "other.', "is part of none of flashinfer-python", id="elsewhere"),
        pytest.param('gen_fused_module"\n', 'gen_nothing"\n', "has no function 'gen_nothing'", id="no such function"),
    ],
)
def test_a_recipe_that_cannot_be_built_is_one_sentence(
    recipe: Path, package: Package, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
) -> None:
    head, _, last = recipe.read_text().rpartition(old)
    recipe.write_text(f"{head}{new}{last}")
    assert build(recipe, package, "--as-installed") == 3
    caught = capsys.readouterr()
    assert words in caught.err
    assert caught.out == ""


@pytest.mark.toolkit
def test_hollow_kernels_are_counted_named_and_exit_1(
    recipe: Path, package: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(recipe, package, "--as-installed") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "fused of flashinfer-python 0.6.3 for sm_120a, as installed" in said
    assert "fused.cu 2 of 3 kernels hollow" in said
    assert "plain.cu 0 of 1 kernels hollow" in said
    assert "all 2 kernels of lamport have no body for sm_120a" in said
    assert "kept from before" not in said
    assert build(recipe, package, "--as-installed", "--unit", "fused.cu", "--json") == 1
    (unit,) = json.loads(capsys.readouterr().out)["units"]
    assert (unit["artifact"]["kernels"], unit["artifact"]["hollow"], unit["compiled"]["fresh"]) == (3, 2, True)
    assert {family["name"]: family["hollow"] for family in unit["families"]} == {"lamport": 2, "twoshot": 0}


@pytest.mark.toolkit
def test_a_reference_tells_what_is_empty_by_design(
    recipe: Path, package: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = package.root / "flashinfer/data/csrc/plain.cu"
    plain.write_text("__global__ void warm_up() {}\n")
    only = ("--as-installed", "--unit", "plain.cu", "--json")
    assert build(recipe, package, *only) == 1
    capsys.readouterr()
    assert build(recipe, package, *only, "--reference", "sm_90") == 0
    (unit,) = json.loads(capsys.readouterr().out)["units"]
    assert [finding["rule"] for finding in unit["findings"]] == ["empty-by-design"]


@pytest.mark.toolkit
def test_what_does_not_compile_is_a_finding_with_its_place(
    recipe: Path, package: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    (package.root / "flashinfer/data/include/comm/fused.cuh").write_text("\n#error closed here\n")
    assert build(recipe, package, "--as-installed", "--json") == 1
    fused, plain = json.loads(capsys.readouterr().out)["units"]
    assert (fused["artifact"], plain["artifact"]["hollow"]) == (None, 0)
    first = fused["findings"][0]
    assert (first["rule"], first["file"], first["line"]) == (
        "does-not-compile",
        "flashinfer/data/include/comm/fused.cuh",
        2,
    )


@pytest.mark.toolkit
@pytest.mark.wheels
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("options", "code", "hollow"), [(["--as-installed"], 1, 480), ([], 0, 0)], ids=["as", "opened"]
)
def test_the_real_unit_as_installed_and_opened(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    code: int,
    hollow: int,
) -> None:
    """FlashInfer 0.6.3, ``trtllm_allreduce.cu`` for sm_120a: 480 of 921 kernels hollow, and none once opened.

    Budget: two minutes of processor time each; nothing is kept between runs.
    """
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    site = tmp_path / "site"
    index.install(["flashinfer-python==0.6.3", "sglang==0.5.9"], site)
    common = ["build", "flashinfer-allreduce-fusion", "--site", str(site), "--target", "sm_120a", "--json"]
    assert main([*common, "--unit", "trtllm_allreduce.cu", *options]) == code
    (unit,) = json.loads(capsys.readouterr().out)["units"]
    assert (unit["artifact"]["kernels"], unit["artifact"]["hollow"]) == (921, hollow)
    families = [family["name"].rpartition("::")[2] for family in unit["families"] if family["hollow"]]
    assert families == (["lamport_style_one_shot_all_reduce_norm_kernel"] if hollow else [])
    if not hollow:
        (image,) = sass.read(Path(unit["artifact"]["path"]))
        assert all(kernel.instructions > 16 for kernel in image.kernels)
