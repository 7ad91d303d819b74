"""Answers that are followed: through methods, parameters, lists and imports, on small sources of several files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.source.python.conftest import gates_of, passes_of

from ungate.model import KNOWN_ARCHS
from ungate.scan import shard
from ungate.source.python.module import PythonModule

_FROM_90 = [90, 100, 103, 107, 110, 120, 121]


def test_a_method_that_is_asked_about_the_bound_of_a_class_of_elsewhere(tmp_path: Path) -> None:
    """SGLang's ``_check_scheme_supported(CompressedTensorsW4A4Fp4.get_min_capability(), error=False)``."""
    schemes = "class Fp4:\n    @classmethod\n    def get_min_capability(cls):\n        return 100\n"
    text = (
        "import torch\nfrom p.schemes import Fp4\n\n\nclass Config:\n"
        "    def _check_scheme_supported(self, least, error=True):\n"
        "        major, minor = torch.cuda.get_device_capability()\n"
        "        return major * 10 + minor >= least\n\n"
        "    def scheme(self):\n"
        "        supported = self._check_scheme_supported(Fp4.get_min_capability(), error=False)\n"
        "        if supported:\n            return Fp4()\n        raise NotImplementedError\n"
    )
    found = passes_of(gates_of(tmp_path, a=text, schemes=schemes))
    assert found["a", 11] == found["a", 12] == [100, 103, 107, 110, 120, 121]


def test_the_answer_of_a_method_is_followed_into_the_files_that_ask_it(tmp_path: Path) -> None:
    """As SGLang's models ask ``should_fuse_mlp_allreduce_with_next_layer`` of their communicator."""
    communicator = (
        "import torch\n\n\nclass Communicator:\n    def should_fuse_next_layer(self, batch):\n"
        "        return torch.cuda.get_device_capability()[0] in (9, 10) and batch.size > 0\n"
    )
    text = (
        "from p.communicator import Communicator\n\n\nclass Layer:\n    def __init__(self):\n"
        "        self.communicator = Communicator()\n\n"
        "    def forward(self, batch):\n"
        "        fused = self.communicator.should_fuse_next_layer(batch)\n"
        "        if fused:\n            return 1\n        return 2\n"
    )
    found = passes_of(gates_of(tmp_path, layer=text, communicator=communicator))
    assert found["layer", 9] == found["layer", 10] == [90, 100, 103, 107]


def test_a_list_that_is_filled_under_a_test_and_asked_whether_it_holds_anything(tmp_path: Path) -> None:
    """As SGLang's Nunchaku configuration collects the devices that it does not run on."""
    text = (
        "import torch\n\n\ndef check(count):\n    unsupported: list[str] = []\n    archs = []\n    slow = []\n"
        "    for i in range(count):\n        major, minor = torch.cuda.get_device_capability(i)\n"
        "        if major == 9:\n            unsupported.append('Hopper')\n"
        "        elif major not in (8, 12):\n            unsupported.append(f'cuda:{i}')\n"
        "        if i > 4:\n            slow.append(i)\n"
        "    if unsupported:\n        raise ValueError\n"
        "    if slow:\n        raise ValueError\n"
        "    if minor == 0:\n        archs.append('80')\n    return archs\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    assert found["a", 16] == [80, 86, 87, 88, 89, 120, 121]
    assert ("a", 18) not in found
    assert 90 not in (found["a", 10] or [90])  # what is collected there is told as refused
    assert found["a", 12] == [80, 86, 87, 88, 89, 120, 121]


def test_a_class_whose_head_goes_over_several_lines(tmp_path: Path) -> None:
    """Its members are read one by one all the same, and a method's answer is followed to who asks it."""
    text = (
        "import torch\n\n\nclass Backend(\n    Base,  # not: this\n"
        "    Other[dict['a:', int]],\n    option={1: 2},\n):\n\n"
        "    def __init__(self):\n        self.device_sm_major = torch.cuda.get_device_capability()[0]\n\n"
        "    def _use_sparse(self, batch):\n        return self.device_sm_major != 12 and batch.size > 0\n\n"
        "    def forward(self, batch):\n        if self.device_sm_major < 9:\n            raise ValueError\n"
        "        if self._use_sparse(batch):\n            return 1\n        return 2\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    assert found["a", 17] == _FROM_90
    assert found["a", 19] == [arch for arch in KNOWN_ARCHS if arch < 120]
    module = PythonModule("p/a.py", "p.a", text.encode())
    (piece,) = (each for each in module.pieces if each.kind == "class")
    assert [each.name for each in module.class_body(piece).members] == ["__init__", "_use_sparse", "forward"]


def test_what_a_predicate_imports_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang's predicates import ``get_platform`` inside, as their modules would import each other.

    No file may know it from the file before.
    """
    monkeypatch.setattr(shard, "_HELD", 0)
    context = (
        "import torch\n\n\nclass Platform:\n    @property\n    def is_new(self):\n"
        "        return torch.cuda.get_device_capability()[0] >= 10\n\n\n_PLATFORM = Platform()\n\n\n"
        "def get_context():\n    return _PLATFORM\n"
    )
    config = (
        "def uses_native_stack(quantization):\n    from p.context import get_context\n\n"
        "    return quantization == 'fp4' and get_context().is_new\n"
    )
    use = (
        "def f(runner):\n    from p.config import uses_native_stack\n\n"
        "    if uses_native_stack(runner.quantization):\n        return 1\n"
    )
    found = passes_of(gates_of(tmp_path, context=context, config=config, use=use))
    assert found["use", 4] == [100, 103, 107, 110, 120, 121]


def test_the_number_of_an_architecture_as_text(tmp_path: Path) -> None:
    """FlashInfer's modules are chosen by ``f"{major}{minor}"``, with a default; of a long function the table stays."""
    text = (
        'def get_module(backend: str = "100", fast: bool = False):\n    if backend in ("120", "121"):\n'
        '        return gen_new()\n    elif backend == "103":\n        return gen_103()\n'
        '    raise ValueError(f"Invalid backend: {backend}")\n\n\n'
        'def get_other(backend: str = "100"):\n    modules = {\n        "120": new,\n        "100": old,\n'
        '        "90": older,\n    }\n    if backend not in modules:\n        raise ValueError\n'
        "    module = modules[backend]().build()\n" + "    print(fast)\n" * 200 + "    return module\n\n\n"
        'def crop(size: str = "100", mode: str = "90"):\n    if size == "100":\n        return 1\n'
    )
    found = passes_of(gates_of(tmp_path, a=text))
    assert found == {
        ("a", 2): [120, 121],
        ("a", 4): [103],
        ("a", 10): [90, 100, 120],
        ("a", 15): [90, 100, 120],
    }
