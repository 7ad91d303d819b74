from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ungate.errors import Refusal
from ungate.host import gpus
from ungate.host.gpus import Gpu, Link
from ungate.model import Target


class NoAnswer(Exception):
    """What NVML raises for a field that a GPU does not have."""


def nvml(count: int, answers: dict[str, Any]) -> ModuleType:
    """A module that looks like pynvml: a function without an answer raises."""

    class Nvml(ModuleType):
        NVML_P2P_CAPS_INDEX_READ = (0,)  # as nvidia-ml-py 13.615 has it
        NVML_P2P_CAPS_INDEX_WRITE = 1
        NVML_P2P_CAPS_INDEX_NVLINK = 2
        NVML_P2P_CAPS_INDEX_ATOMICS = 3
        NVML_NVLINK_MAX_LINKS = 4

        def __getattr__(self, name: str) -> Any:
            def ask(*arguments: Any) -> Any:
                if name not in answers:
                    raise NoAnswer(name)
                answer = answers[name]
                return answer(*arguments) if callable(answer) else answer

            return ask

    answers.setdefault("nvmlInit", None)
    answers.setdefault("nvmlShutdown", None)
    answers.setdefault("nvmlDeviceGetCount", count)
    answers.setdefault("nvmlDeviceGetHandleByIndex", lambda index: f"handle {index}")
    return Nvml("pynvml")


def use(monkeypatch: pytest.MonkeyPatch, count: int, **answers: Any) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(count, answers))


def test_without_a_driver_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise NoAnswer("NVML Shared Library Not Found")

    use(monkeypatch, 0, nvmlInit=fails)
    reading = gpus.read()
    assert (reading.gpus, reading.links, reading.driver) == ((), (), None)
    assert reading.note == "NVML does not start: NVML Shared Library Not Found"


def test_every_field_that_does_not_answer_is_none_and_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, 2)
    reading = gpus.read()
    assert reading.gpus == (Gpu(0), Gpu(1))
    assert reading.links == (Link(0, 1),)
    assert (reading.driver, reading.cuda) == (None, None)


def test_a_lost_gpu_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(index: int) -> str:
        if index == 0:
            raise NoAnswer("GPU is lost")
        return "handle"

    use(monkeypatch, 2, nvmlDeviceGetHandleByIndex=handle, nvmlDeviceGetCudaComputeCapability=(12, 0))
    assert [gpu.capability for gpu in gpus.read().gpus] == [None, 120]


def test_all_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    use(
        monkeypatch,
        2,
        nvmlDeviceGetCudaComputeCapability=(12, 0),
        nvmlDeviceGetName=b"NVIDIA RTX PRO 6000",
        nvmlDeviceGetMemoryInfo=SimpleNamespace(total=96 << 30),
        nvmlDeviceGetBAR1MemoryInfo=SimpleNamespace(bar1Total=128 << 30),
        nvmlDeviceGetPciInfo=SimpleNamespace(busId="00000000:01:00.0"),
        nvmlDeviceGetEnforcedPowerLimit=600_000,
        nvmlDeviceGetCurrPcieLinkGeneration=1,
        nvmlDeviceGetMaxPcieLinkGeneration=5,
        nvmlDeviceGetCurrPcieLinkWidth=16,
        nvmlDeviceGetMaxPcieLinkWidth=16,
        nvmlDeviceGetNvLinkState=lambda handle, link: 1 if link < 3 else 0,
        nvmlDeviceGetP2PStatus=lambda one, other, what: {0: 3, 1: 0, 2: 5, 3: 6}[what],
        nvmlDeviceGetTopologyCommonAncestor=30,
        nvmlSystemGetDriverVersion="580.95.05",
        nvmlSystemGetCudaDriverVersion_v2=13000,
    )
    reading = gpus.read()
    assert reading.gpus[1] == Gpu(
        1, "NVIDIA RTX PRO 6000", None, "00000000:01:00.0", 120, 96 << 30, 128 << 30, 600.0, 1, 5, 16, 16, 3
    )
    (link,) = reading.links
    assert (link.read, link.write, link.nvlink, link.path) == (False, True, False, "PHB")
    assert link.atomics is None  # status 6 is "unknown", which is no "no"
    assert link.reason == "the I/O hub topology does not support it"
    assert (reading.driver, reading.cuda) == ("580.95.05", "13.0")


@pytest.mark.parametrize(
    ("capabilities", "answer"),
    [
        pytest.param([(12, 0), (12, 0)], Target(120), id="alike"),
        pytest.param([], "no NVIDIA GPU answers", id="none"),
        pytest.param([(12, 0), (9, 0)], "differ", id="mixed"),
        pytest.param([(7, 0)], "does not know", id="old"),
    ],
)
def test_the_local_target(
    monkeypatch: pytest.MonkeyPatch, capabilities: list[tuple[int, int]], answer: Target | str
) -> None:
    use(
        monkeypatch,
        len(capabilities),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetCudaComputeCapability=lambda index: capabilities[index],
    )
    if isinstance(answer, Target):
        assert gpus.local_target() == answer
    else:
        with pytest.raises(Refusal, match=answer):
            gpus.local_target()


@pytest.mark.gpu
def test_the_real_gpus_answer() -> None:
    reading = gpus.read()
    assert reading.gpus
    assert reading.driver
    assert all(gpu.capability and gpu.memory and gpu.bus for gpu in reading.gpus)
    assert all(link.read is not None for link in reading.links)
