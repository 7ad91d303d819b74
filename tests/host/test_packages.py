from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.host import packages
from ungate.host.environment import Environment, resolve
from ungate.host.packages import Package

MakeSite = Callable[..., Path]


def env(*roots: Path) -> Environment:
    return Environment(roots, None)


def info_of(site: Path, stem: str) -> Path:
    return site / f"{stem}.dist-info"


@pytest.fixture
def site(make_site: MakeSite) -> Path:
    return make_site(
        {
            "flash-kernels==1.2": {"flash_kernels/__init__.py": "x = 1\n", "flash_kernels/csrc/a.cu": "__global__\n"},
            "engine==0.5.9": {"engine/__init__.py": "", "build_helper.py": ""},
        }
    )


def test_installed_names_versions_tops_and_installer(site: Path) -> None:
    engine, kernels = packages.installed(env(site))
    assert (engine.name, engine.version, engine.root, engine.installer) == ("engine", "0.5.9", site, "pip")
    assert set(engine.tops) == {"engine", "build_helper.py"}
    assert kernels.tops == ("flash_kernels",)
    assert kernels.folders == (site / "flash_kernels",)
    assert kernels.info == info_of(site, "flash_kernels-1.2")
    assert not kernels.editable
    assert kernels.note == ""


def test_versions_reads_no_file_list(site: Path) -> None:
    (info_of(site, "engine-0.5.9") / "RECORD").unlink()
    assert packages.versions(env(site)) == {"engine": "0.5.9", "flash-kernels": "1.2"}


def test_the_first_root_wins(site: Path, make_site: MakeSite, tmp_path: Path) -> None:
    overlay = make_site({"engine==0.5.9+patched": {"engine/__init__.py": ""}}, tmp_path / "overlay")
    assert packages.find(env(overlay, site), "engine").version == "0.5.9+patched"
    assert [package.root for package in packages.installed(env(overlay, site))] == [overlay, site]


@pytest.mark.parametrize("name", ["flash-kernels", "Flash_Kernels", "flash.kernels"])
def test_names_are_compared_as_an_index_does(site: Path, name: str) -> None:
    assert packages.find(env(site), name).name == "flash-kernels"


def test_a_missing_distribution_names_what_is_similar(site: Path) -> None:
    with pytest.raises(Refusal) as caught:
        packages.find(env(site), "flash-kernel")
    assert "similar names there are flash-kernels" in caught.value.what
    assert caught.value.next_step.endswith("ungate scan flash-kernel==VERSION")


def test_a_missing_distribution_without_relatives_counts_the_others(site: Path) -> None:
    with pytest.raises(Refusal, match=r"\(2 distributions are\)"):
        packages.find(env(site), "torch")


def test_a_folder_without_dist_info_is_told_from_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    with pytest.raises(Refusal, match=r"is there but no \.dist-info describes it"):
        packages.find(env(tmp_path), "torch")


def test_a_broken_dist_info_is_said_and_does_not_hide_the_others(site: Path) -> None:
    info = info_of(site, "engine-0.5.9")
    (info / "METADATA").unlink()
    (info / "RECORD").write_bytes(b"\x00\xff garbage")
    package = packages.find(env(site), "engine")
    assert (package.name, package.version) == ("engine", "0.5.9")
    assert "METADATA could not be read" in package.note
    assert len(packages.installed(env(site))) == 2


def test_an_empty_dist_info_gives_the_name_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "odd.dist-info").mkdir()
    (package,) = packages.installed(env(tmp_path))
    assert (package.name, package.version, package.tops) == ("odd", "", ())
    assert "RECORD is missing" in package.note


def test_what_pip_is_about_to_delete_is_no_package(site: Path) -> None:
    info_of(site, "engine-0.5.9").rename(site / "~ngine-0.5.9.dist-info")
    assert [package.name for package in packages.installed(env(site))] == ["flash-kernels"]


def test_recorded_hashes_are_hex_and_leave_out_scripts_elsewhere(site: Path) -> None:
    info = info_of(site, "flash_kernels-1.2")
    with (info / "RECORD").open("a") as record:
        record.write("../../../bin/tool,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")
    recorded = packages.recorded(packages.find(env(site), "flash-kernels"))
    assert recorded["flash_kernels/csrc/a.cu"] == hashlib.sha256(b"__global__\n").hexdigest()
    assert not any("bin/tool" in name or name.endswith("RECORD") for name in recorded)


def test_untouched_files_deviate_in_nothing(site: Path) -> None:
    for package in packages.installed(env(site)):
        assert packages.deviations(package) == ()


def test_changed_missing_and_extra_files_are_named(site: Path) -> None:
    (site / "flash_kernels/__init__.py").write_text("x = 2\n")
    (site / "flash_kernels/csrc/a.cu").unlink()
    (site / "flash_kernels/stray.py").touch()
    (site / "flash_kernels/notes.txt").touch()
    (site / "flash_kernels/__pycache__").mkdir()
    (site / "flash_kernels/__pycache__/x.py").touch()
    assert packages.deviations(packages.find(env(site), "flash-kernels")) == (
        ("flash_kernels/__init__.py", "changed"),
        ("flash_kernels/csrc/a.cu", "missing"),
        ("flash_kernels/stray.py", "extra: no RECORD lists this source file"),
    )


def test_without_record_nothing_is_claimed(site: Path) -> None:
    (info_of(site, "engine-0.5.9") / "RECORD").unlink()
    package = packages.find(env(site), "engine")
    assert packages.recorded(package) == {}
    ((file, reason),) = packages.deviations(package)
    assert file == "engine-0.5.9.dist-info/RECORD"
    assert reason.startswith("unknown")


def test_another_hash_than_sha256_is_checked_too_or_unknown(site: Path) -> None:
    record = info_of(site, "engine-0.5.9") / "RECORD"
    empty = "OLBgp1GsljhM2TJ-sbHjaiH9txEUvgdDTAzHv2P24donTt6_529l-9Ua0vFImLlb"
    record.write_text(f"engine/__init__.py,sha384={empty},0\nbuild_helper.py,crc7=AA,0\n")
    ((file, reason),) = packages.deviations(packages.find(env(site), "engine"))
    assert file == "build_helper.py"
    assert reason.startswith("unknown: RECORD gives a crc7 hash")


def test_two_distributions_may_own_one_folder_and_one_file(make_site: MakeSite) -> None:
    site = make_site(
        {
            "flash==0.7.4": {"flash/__init__.py": "", "b12x/__init__.py": "alias = True\n", "b12x/loader.py": ""},
            "b12x==1.5.1": {"b12x/__init__.py": "kernels = True\n", "b12x/kernels.py": ""},
        }
    )
    flash, b12x = packages.find(env(site), "flash"), packages.find(env(site), "b12x")
    assert (set(flash.tops), b12x.tops) == ({"flash", "b12x"}, ("b12x",))
    assert packages.deviations(b12x) == ()
    ((file, reason),) = packages.deviations(flash)
    assert file == "b12x/__init__.py"
    assert reason.startswith("changed: it is the file of b12x-1.5.1.dist-info")


def editable(site: Path, source: Path, files: dict[str, str]) -> None:
    info = site / "ed-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: ed\nVersion: 0.1\n")
    (info / "INSTALLER").write_text("pip\n")
    (info / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}}))
    for name, text in files.items():
        (site / name).write_text(text)
    rows = [*files, "ed-0.1.dist-info/METADATA", "ed-0.1.dist-info/RECORD"]
    (info / "RECORD").write_text("".join(f"{row},,\n" for row in rows))


@pytest.mark.parametrize("way", ["pth", "finder", "nothing but the address"])
def test_the_sources_of_an_editable_installation_are_found(tmp_path: Path, way: str) -> None:
    source = tmp_path / "my checkout"
    package = source / ("python" if way != "nothing but the address" else "src") / "ed"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    files = {
        "pth": {"_ed.pth": f"{package.parent}\n"},
        "finder": {
            "__editable__.ed-0.1.pth": "import __editable___ed_finder\n",
            "__editable___ed_finder.py": f"MAPPING: dict[str, str] = {{'ed': {str(package)!r}}}\n",
        },
        "nothing but the address": {},
    }[way]
    editable(tmp_path / "site", source, files)
    found = packages.find(env(tmp_path / "site"), "ed")
    assert (found.editable, found.root, found.tops) == (True, package.parent, ("ed",))
    assert packages.recorded(found) == {}
    ((_, reason),) = packages.deviations(found)
    assert reason.startswith("unknown: it is an editable installation")


def test_an_editable_installation_whose_sources_are_gone_is_said(tmp_path: Path) -> None:
    editable(tmp_path / "site", tmp_path / "gone", {})
    found = packages.find(env(tmp_path / "site"), "ed")
    assert (found.editable, found.tops) == (True, ())
    assert "holds none of its modules" in found.note


def test_ungate_itself_is_found_where_it_is_installed() -> None:
    package = packages.find(resolve(None, None), "ungate")
    assert "ungate" in package.tops
    assert (package.root / "ungate" / "host" / "packages.py").is_file()


def test_below_an_unpacked_wheel(site: Path) -> None:
    assert [package.name for package in packages.below(site)] == ["engine", "flash-kernels"]


def test_below_a_bare_folder_is_one_package(tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    assert packages.below(folder) == (Package("checkout", "", tmp_path, ("checkout",)),)
    ((_, reason),) = packages.deviations(packages.below(folder)[0])
    assert reason.startswith("unknown")


def test_below_refuses_what_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="does not exist"):
        packages.below(tmp_path / "x")
    (tmp_path / "x").touch()
    with pytest.raises(Refusal, match="is a file"):
        packages.below(tmp_path / "x")


@pytest.mark.wheels
def test_the_real_flashinfer_is_read_and_hashed(tmp_path: Path) -> None:
    """FlashInfer 0.6.3 as fetched: 2,004 recorded files."""
    from ungate.host import index

    root = index.fetch("flashinfer-python==0.6.3")
    copy = tmp_path / "site"
    shutil.copytree(root, copy)
    package = packages.find(env(copy), "flashinfer-python")
    assert {"flashinfer"} <= set(package.tops)
    assert packages.deviations(package) == ()
    header = copy / "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
    header.write_bytes(header.read_bytes().replace(b"1200", b"1300", 1))
    assert packages.deviations(package) == ((header.relative_to(copy).as_posix(), "changed"),)
