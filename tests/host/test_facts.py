from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.host import advice, facts
from ungate.host.environment import Environment
from ungate.host.facts import HostFacts
from ungate.host.gpus import Gpu, Link
from ungate.host.machine import Machine
from ungate.host.toolchain import Tool

TOOLS = tuple(Tool(name, Path("/usr/bin") / name, "13.0") for name in ("nvcc", "ptxas", "cuobjdump", "nvdisasm", "g++"))
PAIR = (Gpu(0, capability=120), Gpu(1, capability=120))
FULL = HostFacts(
    machine=Machine(
        hypervisor="QEMU", cores=64, cpu_limit=8.5, shared_memory=64 << 30, locked_memory_limit="unlimited"
    ),
    driver="580.95.05",
    gpus=PAIR,
    links=(Link(0, 1, read=True, write=True, atomics=None, nvlink=False, path="PHB"),),
    tools=TOOLS,
    codes=("sm_90", "sm_120"),
    packages={"sglang": "0.5.9", "flashinfer-python": "0.6.3"},
    skew=("A sentence.",),
)


def test_what_is_written_is_read_back_equal() -> None:
    assert facts.parse(FULL.to_json(), "host.json") == FULL
    assert facts.parse(HostFacts().to_json(), "host.json") == HostFacts()


def test_this_host_survives_the_way_through_a_file(make_site: Callable[..., Path], tmp_path: Path) -> None:
    site = make_site({"sglang==0.5.9": {"sglang/__init__.py": ""}, "other==1.0": {"other/__init__.py": ""}})
    found = facts.collect(Environment((site,), None))
    (tmp_path / "host.json").write_text(found.to_json())
    assert facts.load(tmp_path / "host.json") == found
    assert dict(found.packages) == {"sglang": "0.5.9"}
    assert found.roots == (str(site),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("{", "is no JSON document", id="broken"),
        pytest.param("[]", "does not hold host facts of format 1", id="a list"),
        pytest.param('{"format": 2}', "does not hold host facts of format 1", id="another format"),
        pytest.param('{"format": 1, "gpu": []}', "holds fields .* gpu", id="a field nobody knows"),
        pytest.param('{"format": 1, "gpus": [{"index": "one"}]}', r"gpus\.0\.index", id="a wrong value"),
    ],
)
def test_what_is_no_record_of_facts_is_refused(text: str, words: str) -> None:
    with pytest.raises(Refusal, match=words) as caught:
        facts.parse(text, "host.json")
    assert caught.value.next_step.endswith("ungate doctor --json > host.json")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="No such file"):
        facts.load(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(Refusal, match="it is not text"):
        facts.load(tmp_path / "x")


@pytest.mark.parametrize(
    ("links", "peer"),
    [
        pytest.param((), None, id="one GPU"),
        pytest.param((Link(0, 1, True, True),), True, id="yes"),
        pytest.param((Link(0, 1, True, False),), False, id="read only"),
        pytest.param((Link(0, 1, True, None),), None, id="half known"),
        pytest.param((Link(0, 1, None, None), Link(0, 2, False, False)), False, id="one pair is enough"),
    ],
)
def test_peer_access_of_all_pairs(links: tuple[Link, ...], peer: bool | None) -> None:
    assert HostFacts(links=links).peer_access is peer


def test_archs_are_each_named_once() -> None:
    assert HostFacts(gpus=(*PAIR, Gpu(2), Gpu(3, capability=90))).archs == (90, 120)


WELL = HostFacts(
    machine=Machine(hypervisor="", shared_memory=64 << 30),
    gpus=PAIR,
    links=(Link(0, 1, True, True),),
    tools=TOOLS,
    codes=("sm_120",),
    packages={"sglang": "0.5.9"},
)


def changed(**fields: object) -> HostFacts:
    return dataclasses.replace(WELL, **fields)  # type: ignore[arg-type]


def test_with_nothing_wrong_the_next_command_is_named() -> None:
    assert advice.next_steps(WELL) == ("Nothing stands in the way. See what is closed here: ungate scan",)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        pytest.param(changed(gpus=(), links=()), "No GPU answers here", id="no GPU"),
        pytest.param(changed(gpus=(), gpus_on_bus=("0000:01:00.0",), gpu_note="x"), "on the bus", id="no driver"),
        pytest.param(changed(gpus=(Gpu(0, capability=120), Gpu(1))), "GPU 1 does not answer", id="lost"),
        pytest.param(
            changed(links=(Link(0, 1, False, False, reason="why"),)), r"memory \(why\), so", id="no peer access"
        ),
        pytest.param(changed(links=(Link(0, 1),)), "is not known: nvidia-smi topo", id="peer access unknown"),
        pytest.param(changed(machine=Machine(hypervisor="QEMU")), "this is a virtual machine", id="guest"),
        pytest.param(
            changed(gpus=(Gpu(0, capability=120, acs_redirect=True), PAIR[1])), r"\(ACS\)", id="redirecting bridge"
        ),
        pytest.param(
            changed(gpus=(Gpu(0, capability=120, pcie_width=4, pcie_width_max=16), PAIR[1])), "x4 of x16", id="narrow"
        ),
        pytest.param(changed(skew=("These differ.",)), "^These differ. Bring them together", id="skew"),
        pytest.param(changed(tools=TOOLS[:2] + TOOLS[4:]), "^cuobjdump, nvdisasm are missing", id="no disassembler"),
        pytest.param(changed(codes=("sm_90",)), "cannot compile for sm_120", id="old toolkit"),
        pytest.param(changed(tools=TOOLS[:4]), r"No C\+\+ compiler", id="no compiler"),
        pytest.param(changed(machine=Machine(shared_memory=64 << 20)), "/dev/shm has 64 MB", id="small shared memory"),
        pytest.param(changed(packages={"torch": "2.9"}), "--python PATH", id="no engine"),
        pytest.param(
            changed(arch_lists={"TORCH_CUDA_ARCH_LIST": "8.0;9.0a"}), "leaves out sm_120.*unset TORCH", id="arch list"
        ),
        pytest.param(changed(cuda_driver="12.8"), r"nvcc \(13.0\) is newer than the driver", id="old driver"),
        pytest.param(changed(unread=("The machine could not be read.",)), "Please report it", id="unforeseen"),
    ],
)
def test_each_reason_has_its_sentence(host: HostFacts, words: str) -> None:
    (step,) = advice.next_steps(host)
    assert re.search(words, step), step


@pytest.mark.parametrize(
    "fields",
    [
        {"arch_lists": {"TORCH_CUDA_ARCH_LIST": "9.0a 12.0"}},
        {"arch_lists": {"TORCH_CUDA_ARCH_LIST": "9.0+PTX"}},
        {"arch_lists": {"CUDAARCHS": "native"}},
        {"cuda_driver": "13.0"},
        {"cuda_driver": "13.1"},
    ],
)
def test_a_list_with_the_gpu_and_a_driver_that_is_new_enough_are_fine(fields: dict[str, object]) -> None:
    assert advice.next_steps(changed(**fields)) == advice.next_steps(WELL)


READERS = [
    ("gpus.read", "What NVML says"),
    ("machine.read", "The machine"),
    ("pci.nvidia_devices", "The PCIe bus"),
    ("toolchain.tools", "The toolkit"),
    ("toolchain.codes", "What nvcc compiles for"),
    ("packages.versions", "The list of packages"),
    ("siblings.skew", "Whether packages fit each other"),
    ("siblings.pins", "What the engines pin"),
]


@pytest.mark.parametrize(("reader", "named"), READERS)
def test_one_reading_that_breaks_takes_no_other_with_it(
    reader: str, named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*arguments: object) -> None:
        raise OverflowError("odd")

    monkeypatch.setattr(f"ungate.host.facts.{reader}", broken)
    found = facts.collect(Environment((tmp_path,), None), tmp_path)
    assert found.unread == (f"{named} could not be read: OverflowError: odd.",)
    assert facts.parse(found.to_json(), "host.json") == found
    assert any(named in step for step in advice.next_steps(found))


def test_the_lists_of_the_environment_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLASHINFER_CUDA_ARCH_LIST", "12.0f")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "")
    found = facts.collect(Environment((tmp_path,), None), tmp_path)
    assert found.arch_lists == {"FLASHINFER_CUDA_ARCH_LIST": "12.0f"}


def test_the_document_of_doctor_is_read_back(tmp_path: Path) -> None:
    content = {**json.loads(FULL.to_json()), "next_steps": ["x"]}
    assert facts.parse(json.dumps(content), "host.json") == FULL
