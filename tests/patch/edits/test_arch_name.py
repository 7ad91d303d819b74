"""One string that names the target of a compilation."""

from __future__ import annotations

from typing import Any

import pytest
from tests.patch.edits.opened import opened

from ungate.model import Form, Sense
from ungate.patch.edits import Unopenable

_ON = "torch.version.hip is None and torch.cuda.is_available() and torch.cuda.get_device_capability() == "


def _value(text: str, capability: tuple[int, int]) -> Any:
    """What the edited assignment gives on a device of that capability."""

    class Cuda:
        is_available = staticmethod(lambda: True)
        get_device_capability = staticmethod(lambda: capability)

    class Torch:
        cuda = Cuda
        version = type("version", (), {"hip": None})

    names: dict[str, Any] = {"torch": Torch, "GPUArch": lambda name: name, "compile": lambda k, options: options}
    exec(text.replace("import torch\n", ""), names)
    return names["x"]


@pytest.mark.parametrize(
    ("before", "deciding", "wanted", "values"),
    [
        ('x = GPUArch("sm_120a")\n', '"sm_120a"', (121,), {121: "sm_121a", 120: "sm_120a", 90: "sm_120a"}),
        ("x = 'sm_90'\n", "'sm_90'", (120,), {120: "sm_120", 90: "sm_90"}),
        ('x = ["sm_100f", 1][0]\n', '"sm_100f"', (120,), {120: "sm_120a", 100: "sm_100f"}),
        ('x = "sm_90a".upper()\n', '"sm_90a"', (120,), {120: "SM_120A", 90: "SM_90A"}),
        ('x = "sm_90a" + "x"\n', '"sm_90a"', (120,), {120: "sm_120ax", 90: "sm_90ax"}),
        (
            'x = compile(1, options="--gpu-arch sm_100a -O3")\n',
            '"--gpu-arch sm_100a -O3"',
            (110, 120),
            {110: "--gpu-arch sm_110a -O3", 120: "--gpu-arch sm_120a -O3", 100: "--gpu-arch sm_100a -O3"},
        ),
        (
            'y = True\nx = GPUArch("sm_121a" if not y else "sm_120a")\n',
            '"sm_121a" if not y else "sm_120a"',
            (90,),
            {90: "sm_90a", 120: "sm_120a"},
        ),
    ],
)
def test_another_target_is_chosen_on_the_wanted_archs_only(
    before: str, deciding: str, wanted: tuple[int, ...], values: dict[int, str]
) -> None:
    after, admits = opened("import torch\n" + before, deciding, Form.ARCH_NAME, wanted)
    assert admits == frozenset(wanted)
    assert {arch: _value(after, divmod(arch, 10)) for arch in values} == values


def test_the_text_of_the_edit() -> None:
    after, _ = opened('import torch\nx = GPUArch("sm_120a")\n', '"sm_120a"', Form.ARCH_NAME, (121,))
    assert after == f'import torch\nx = GPUArch("sm_121a" if {_ON}(12, 1) else "sm_120a")\n'


@pytest.mark.parametrize(
    ("before", "deciding", "sense", "reason"),
    [
        ('x = "O3"\n', '"O3"', Sense.ALLOW, "no string that names one"),
        ('x = "-gencode arch=compute_90 -gencode arch=compute_100"\n', None, Sense.ALLOW, "several architectures"),
        ('x = ("-O3 " "sm_90")\n', '"sm_90"', Sense.ALLOW, "part of a longer one"),
        ('x = "sm_90"\n', '"sm_90"', Sense.REFUSE, "what is refused"),
    ],
)
def test_what_names_no_single_target_is_refused(before: str, deciding: str | None, sense: Sense, reason: str) -> None:
    text = deciding or before.removeprefix("x = ").strip()
    with pytest.raises(Unopenable, match=reason):
        opened("import torch\n" + before, text, Form.ARCH_NAME, sense=sense)
