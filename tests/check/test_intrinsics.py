"""Functions of the toolkit that are not there for the target, by nvcc."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.check.conftest import Ask

from ungate.host import declarations
from ungate.model import Target

pytestmark = pytest.mark.toolkit

GATED = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900\n"
KERNEL = "__global__ void k(int* p) {\n" + GATED + "  __cluster_barrier_arrive();\n  __nanosleep(1);\n#endif\n}\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))


def test_declared_for_one_and_not_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["__cluster_barrier_arrive", "__nanosleep", "__shfl_xor_sync", "__no_such_thing"]
    assert declarations.declared(names, Target(90, "a")) == frozenset(names[:3])
    assert declarations.declared(names, Target(89)) == frozenset({"__nanosleep", "__shfl_xor_sync"})

    def never(*_: object) -> None:
        raise AssertionError("nvcc was asked again")

    monkeypatch.setattr(declarations, "_ask", never)
    assert declarations.declared(names[1:], Target(89)) == frozenset({"__nanosleep", "__shfl_xor_sync"})


def test_a_target_that_nvcc_does_not_know() -> None:
    assert declarations.declared(["__nanosleep"], Target(50)) is None


def test_a_call_that_the_target_has_not(ask: Ask) -> None:
    (finding,) = ask("intrinsics", KERNEL, target=89, opened=1)
    assert finding.what.startswith("k calls __cluster_barrier_arrive, which the toolkit declares for sm_")
    assert finding.what.endswith("and not for sm_89") and finding.severity == "danger" and finding.line == 3
    assert ask("intrinsics", KERNEL, target=89) == ()


def test_what_is_defined_in_the_file_or_nowhere_is_nothing(ask: Ask) -> None:
    own = "__device__ void __cluster_barrier_arrive() {}\n"
    assert ask("intrinsics", own + KERNEL, target=89, opened=1) == ()
    assert ask("intrinsics", KERNEL.replace("__cluster_barrier_arrive", "__mine"), target=89, opened=1) == ()


def test_more_errors_than_are_kept_of_a_log() -> None:
    names = [f"__no_such_function_{number}" for number in range(1200)]
    assert declarations.declared(["__cluster_barrier_arrive", *names], Target(89)) == frozenset()
