from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ungate.cli.main import main
from ungate.host import facts
from ungate.host.facts import HostFacts
from ungate.host.gpus import Gpu, Link
from ungate.host.machine import Machine

EIGHT = HostFacts(
    machine=Machine(system="Ubuntu 24.04", hypervisor="QEMU", container="", iommu="on", shared_memory=64 << 20),
    driver="580.95.05",
    gpus=tuple(
        Gpu(index, "NVIDIA RTX PRO 6000", capability=120, memory=96 << 30, pcie_generation=5) for index in range(8)
    ),
    links=tuple(
        Link(one, other, read=False, write=False, nvlink=False, path="SYS", reason="the chipset does not support it")
        for one in range(8)
        for other in range(one + 1, 8)
        if (one, other) != (0, 1)
    ),
)


def ungate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ungate", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_it_informs_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    for title in ("Machine", "GPUs", "Toolchain", "Packages", "Next"):
        assert f"\n{title}\n" in f"\n{said}"
    assert "\x1b" not in said


def test_the_document_is_alone_on_stdout_and_is_facts() -> None:
    ran = ungate("doctor", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert facts.parse(ran.stdout, "stdout").machine.cores
    assert json.loads(ran.stdout)["next_steps"]


def test_nothing_heavy_is_imported() -> None:
    code = "import sys; from ungate.cli.main import main; main(['doctor']); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    heavy = {"torch", "numpy", "scipy", "altair", "pydantic", "aiohttp", "tree_sitter", "jinja2", "asyncio"}
    assert not heavy & set(ran.stderr.split())


@pytest.mark.parametrize("option", ["--site", "--python"])
def test_a_bad_environment_is_one_sentence_and_3(option: str, tmp_path: Path) -> None:
    ran = ungate("doctor", option, str(tmp_path / "x"))
    assert ran.returncode == 3
    assert "does not exist" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""


def test_eight_gpus_without_peer_access(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(facts, "collect", lambda env: EIGHT)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("GPUs") + 2]
    assert table.split("  ")[1:4] == ["0", "NVIDIA RTX PRO 6000", "sm_120"]
    assert "unknown" in table  # the width of the link was not read
    matrix = lines[lines.index("Peer access (read and write) and distance") + 1 :][:9]
    assert matrix[1].split() == ["0", "-", "unknown", *["no", "SYS"] * 6]
    assert any("no edit can make a feature work that polls a peer" in line for line in lines)
    assert any("/dev/shm has 64 MB" in line for line in lines)
    assert any(line.split() == ["virtual", "machine", "yes", "(QEMU)"] for line in lines)
