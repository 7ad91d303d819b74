"""Numbers, tuples or names of capabilities are compared in place.

::

    major, minor = torch.cuda.get_device_capability()
    if major == 12 and minor == 0:

    utils.py:553  is_sm120a_supported  passes sm_120

The notation is taken from the other side: ``9`` is a major, ``90`` and ``900`` are archs, ``(9, 0)`` is a capability,
``"sm_90a"`` a name. ``major`` also names matrix layouts and CUDA versions; those are followed and left out. A major
below 5 is another maker's: no CUDA of these packages builds for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.model import KNOWN_ARCHS
from ungate.scan.asked import asked
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import evaluate
from ungate.source.python.file import PythonFile

__all__ = ["SAMPLES", "find"]

_ANOTHER_MAKERS = re.compile(r"\bmajor == [1-4]\b")


@pattern("py-compare", kind="python-capability-compare", language="python", rank=20)
def find(file: PythonFile) -> Iterator[Draft]:
    """Every test in which something is compared with numbers or names of archs."""
    for question in file.questions:
        if question.compares and question.context != "case":
            draft = asked(file, question, "define" if question.context == "return" else "test")
            if _ANOTHER_MAKERS.search(draft.text) is None or any(
                evaluate(question.condition, arch) is not False for arch in KNOWN_ARCHS
            ):
                yield draft


_READ = "import torch\nmajor, minor = torch.cuda.get_device_capability()\n"

SAMPLES = (
    Nothing("a CUDA version", 'major, minor = torch.version.cuda.split(".")\nif int(major) >= 12:\n    pass\n'),
    Nothing("a matrix layout", 'def f(a_major, major):\n    return a_major == "k" and major == "mn"\n'),
    Nothing("the architecture of a CPU", 'arch = platform.machine()\nif arch == "x86_64":\n    pass\n'),
    Nothing("another vendor's", 'def f(arch):\n    if arch.startswith(("gfx10", "gfx11")):\n        return 32\n'),
    Nothing(
        "a module of instructions",
        "import cutlass.cute as cute\ndef kernel():\n    tid, _, _ = cute.arch.thread_idx()\n"
        "    if tid == 0:\n        pass\n",
    ),
    Nothing("the architecture of a model", 'if config.arch == "LlamaForCausalLM":\n    pass\n'),
    Nothing("what is named like an arch and is none", 'def f(c):\n    return c.pipeline == "sm100"\n'),
    Nothing("another maker's major", _READ + 'assert major == 3 and minor >= 1, "MP>=31"\n'),
    Nothing("the range of minor numbers", _READ + "assert 0 <= minor < 10\n"),
    Finds(
        "a major of old",
        _READ + "if major == 6:\n    pass\nif major == 3 or major == 9:\n    pass\n",
        {3: (), 5: (90,)},
    ),
    Finds("a major number", _READ + "if major == 9:\n    pass\n", {3: (90,)}, {3: "major == 9"}),
    Finds(
        "a named tuple as the bound",
        "class Capability(NamedTuple):\n    major: int\n    minor: int\n\n"
        "def ok(capability):\n"
        "    return capability >= Capability(8, 0) and capability <= Capability(\n        10, 3\n    )\n",
        {6: (80, 86, 87, 88, 89, 90, 100, 103)},
    ),
    Finds(
        "a capability that is read or given",
        "import torch\ndef number():\n    major, minor = torch.cuda.get_device_capability()\n"
        "    return major * 10 + minor\n\n"
        "def run(_arch=None):\n    arch = number() if _arch is None else _arch\n    assert arch // 10 in [8, 9]\n",
        {8: (80, 86, 87, 88, 89, 90)},
    ),
    Finds(
        "a call that raises where its argument holds",
        _READ + 'def f():\n    self._runtime_error_if(\n        major < 9,\n        "needs SM90",\n    )\n',
        {5: (90, 100, 103, 107, 110, 120, 121)},
    ),
    Finds(
        "numbers that are read one by one",
        "def f(q):\n    capability = tuple(int(value) for value in torch.cuda.get_device_capability(q.device))\n"
        "    if capability != (12, 0):\n        raise RuntimeError\n"
        '    if (10, "3a") in context.TARGET_CUDA_ARCHS:\n        pass\n',
        {3: (120,), 5: (103,)},
    ),
    Finds(
        "a name that is chosen for one arch where none is given",
        "def f(arch=None):\n    if arch is None:\n        major, minor = torch.cuda.get_device_capability()\n"
        '        if major == 10 and minor == 7:\n            arch = "sm107"\n'
        "        else:\n            raise ValueError\n"
        '    if arch == "sm107":\n        pass\n',
        {4: (107,), 8: (107,)},
    ),
    Finds(
        "what is not in a table is refused",
        _READ + 'arch = {9: "a", 10: "b"}.get(major)\nassert arch is not None\nassert not str(major).isdigit()\n',
        {4: (90, 100, 103, 107)},
    ),
    Finds(
        "what is compared with the name of an arch",
        'def f(target, cap):\n    if target == "sm103a" and fast:\n        pass\n'
        '    if target not in ("sm100a", "sm103a"):\n'
        "        raise ValueError\n    if cap[0] == 8:\n        return 1\n",
        {2: (103,), 4: (100, 103), 6: (80, 86, 87, 88, 89)},
    ),
    Finds(
        "a name that only some archs have",
        'NAMES = {(9, 0): "sm_90a", (10, 0): "sm_100a"}\n\ndef arch_for_capability(capability):\n'
        "    values = [int(value) for value in capability]\n    return NAMES.get((values[0], values[1]))\n\n"
        "def f():\n    name = arch_for_capability(tuple(torch.cuda.get_device_capability()))\n"
        "    if name is None:\n        raise ValueError\n"
        '    if name not in ("sm_90a", "sm_103a"):\n        raise ValueError\n    return name == "sm_100a"\n',
        {9: (90, 100), 11: (90,), 13: (100,)},
    ),
    Finds(
        "a flag that contradicts the comparison",
        _READ + "use_pdl = major >= 9 and setting\nif major == 10 and not use_pdl and size == 1:\n    pass\n",
        {3: (90, 100, 103, 107, 110, 120, 121), 4: (100, 103, 107)},
    ),
    Finds(
        "what is asked for is not known",
        "def f(min_capability):\n    capability = get_device_capability()\n    return capability >= min_capability\n",
        {3: None},
    ),
    Finds(
        "an early way out refuses",
        _READ + "def f():\n    if major < 9:\n        return False\n    return True\n",
        {4: (90, 100, 103, 107, 110, 120, 121)},
    ),
)
