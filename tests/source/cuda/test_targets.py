"""The shipped table of arch macros against the compiler itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ungate.model import KNOWN_ARCHS, Target
from ungate.source.cuda.targets import ask, macros, most_specific, targets


def test_suffixes_define_more() -> None:
    assert macros(Target(120)) == {"__CUDA_ARCH__": 1200}
    assert macros(Target(120, "f"))["__CUDA_ARCH_FAMILY_SPECIFIC__"] == 1200
    assert macros(Target(120, "a"))["__CUDA_ARCH_FEAT_SM120_ALL"] == 1
    assert macros(Target(121, "a"))["__CUDA_ARCH_FAMILY_SPECIFIC__"] == 1210


def test_every_known_arch_has_a_row() -> None:
    assert {target.number for target in targets()} == set(KNOWN_ARCHS)
    assert most_specific(90) == Target(90, "a")
    assert most_specific(89) == Target(89)


@pytest.mark.toolkit
def test_the_table_is_what_nvcc_says() -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc on PATH to ask")
    told = ask(Path(nvcc))
    assert len(told) > 10
    for name, row in told.items():
        number = int(name.strip("afsm_"))
        if number in KNOWN_ARCHS:
            assert dict(macros(Target(number, name[-1] if name[-1] in "af" else ""))) == row, name
