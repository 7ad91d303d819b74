"""A compiled module that holds code for another GPU than the one whose folder it lies in."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.host.test_images import A, F, fatbin, library

from ungate.build.misfit import other_architecture


@pytest.mark.parametrize(
    ("held", "arch", "told"),
    [
        pytest.param(((2, 89, 0),), "sm_120a", "sm_89 and nothing that sm_120a", id="sm_89 alone"),
        pytest.param(((2, 120, A),), "sm_121a", "sm_120a and nothing that sm_121a", id="suffix a"),
        pytest.param(((2, 120, F),), "sm_121a", "", id="family"),
        pytest.param(((2, 120, A),), "sm_120f", "", id="the same GPU"),
        pytest.param(((1, 80, 0),), "sm_120a", "", id="PTX of an older one"),
        pytest.param(((2, 90, A),), "sm_90a sm_120f", "", id="one of two GPUs, as a list of majors allows"),
        pytest.param(((2, 89, 0),), "sm_90a sm_120f", "sm_89 and nothing that sm_90a or sm_120f", id="no"),
        pytest.param(((2, 89, 0),), "py311_cu130", "", id="a folder that names no GPU"),
        pytest.param((), "sm_120a", "", id="no GPU code"),
    ],
)  # fmt: skip
def test_what_the_library_holds(tmp_path: Path, held: tuple[tuple[int, int, int], ...], arch: str, told: str) -> None:
    """flashinfer#5355: the module's own flags name sm_89, whatever GPU is there."""
    file = tmp_path / "topk.so"
    file.write_bytes(library((b".nv_fatbin", fatbin(*held))) if held else b"\x7fELF")
    assert other_architecture((file, tmp_path / "topk.o"), arch) == (f"topk.so holds {told} can run" if told else "")
