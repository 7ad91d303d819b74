from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.host import packages, siblings
from ungate.host.environment import Environment


@pytest.mark.parametrize(
    ("versions", "fits"),
    [
        pytest.param({}, True, id="none"),
        pytest.param({"flashinfer-python": "0.6.17"}, True, id="one alone"),
        pytest.param({"flashinfer-python": "0.6.17", "flashinfer-jit-cache": "0.6.17+cu130"}, True, id="local label"),
        pytest.param({"flashinfer-python": "0.6.17", "flashinfer-cubin": "0.6.16"}, False, id="older cubins"),
        pytest.param({"flashinfer-python": "0.6.17", "torch": "2.9"}, True, id="not of the family"),
    ],
)
def test_families(versions: dict[str, str], fits: bool) -> None:
    said = siblings.skew(versions)
    assert bool(said) is not fits
    if said:
        assert said == ("These must be of one version and are not: flashinfer-python 0.6.17, flashinfer-cubin 0.6.16.",)


REQUIRES = """Requires-Dist: flashinfer_python==0.6.3
Requires-Dist: flashinfer-cubin==0.6.3
Requires-Dist: torch==2.9.1; sys_platform == "linux"
Requires-Dist: triton==9.9.9; sys_platform == "never"
Requires-Dist: xformers==1.0; extra == "all"
Requires-Dist: sgl-kernel>=0.3
Requires-Dist: apache-tvm-ffi==0.1.9+cu130
Requires-Dist: numpy==1.0
Requires-Dist: tilelang == broken ==
"""


def test_pins_of_an_engine(make_site: Callable[..., Path]) -> None:
    names = ("sglang==0.5.9", "flashinfer-python==0.6.4", "flashinfer-cubin==0.6.3+cu130", "torch==2.9.0+cu130")
    site = make_site(
        {
            name: {}
            for name in (
                *names,
                "triton==3.5",
                "xformers==0.1",
                "numpy==2.0",
                "sgl-kernel==0.1",
                "apache-tvm-ffi==0.1.9",
            )
        }
    )
    metadata = site / "sglang-0.5.9.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().rstrip("\n") + "\n" + REQUIRES + "\nRequires-Dist: torch==0 in the text\n")
    env = Environment((site,), None)
    assert siblings.pins(env, packages.versions(env)) == (
        "sglang 0.5.9 pins flashinfer_python==0.6.3; 0.6.4 is installed.",
        "sglang 0.5.9 pins torch==2.9.1; 2.9.0+cu130 is installed.",
    )


def test_without_an_engine_there_are_no_pins(make_site: Callable[..., Path]) -> None:
    env = Environment((make_site({"flashinfer-python==0.6.4": {}}),), None)
    assert siblings.pins(env, packages.versions(env)) == ()
