"""A named test is called, or a flag that holds its answer is read.

::

    if is_sm90_supported() or is_sm100_supported():

    server_args.py:1691  ServerArgs._handle_model_specific_adjustments  passes sm_90 sm_100 sm_103 sm_107

What the test lets through is read from its definition, wherever that stands: behind ``functools.cache``, a ``partial``
with a list of majors, an alias, a flag of a module or an object, or a table of probes by attribute name.
"""

from __future__ import annotations

from collections.abc import Iterator

from ungate.model import KNOWN_ARCHS
from ungate.scan.asked import asked
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import evaluate
from ungate.source.python.file import PythonFile
from ungate.source.python.questions import Question
from ungate.source.python.tokens import telling

__all__ = ["SAMPLES", "find"]


@pattern("py-predicate", kind="python-predicate", language="python", rank=20)
def find(file: PythonFile) -> Iterator[Draft]:
    """Every test made of predicates and flags alone."""
    for question in file.questions:
        if not question.named or question.compares or question.context in ("case", "lookup"):
            continue
        if any(telling(name) for name in question.names) or not _always(question):
            yield asked(file, question, "use")


def _always(question: Question) -> bool:
    """Whether one of its ways is open on every architecture."""
    return all(evaluate(question.condition, arch) for arch in KNOWN_ARCHS)


_DEFINED = """\
import functools
import torch

def _check(majors, version):
    return torch.cuda.get_device_capability()[0] in majors and cuda_version() >= version

is_new = functools.lru_cache(maxsize=1)(functools.partial(_check, majors=[10, 12], version=(12, 8)))
"""

SAMPLES = (
    Nothing("a flag that has nothing to do with the architecture", "_use = is_cuda()\nif _use:\n    pass\n"),
    Nothing("major names a matrix layout", 'def f(major):\n    if major == "k":\n        pass\n'),
    Nothing(
        "a reminder that a thing is there",
        "import torch\n\ndef make():\n    if torch.cuda.get_device_capability()[0] != 10:\n        return None\n"
        "    return State()\n\ndef f():\n    state = make()\n    assert state is not None\n",
    ),
    Nothing(
        "a predicate of CUDA's version", "def ok():\n    return torch.version.cuda >= '12.8'\nif ok():\n    pass\n"
    ),
    Nothing(
        "one of two ways is open on every architecture",
        "import torch\n\ndef new():\n    return torch.cuda.get_device_capability()[0] >= 10\n\n"
        "def ready():\n    return new() or not new()\n\nif ready():\n    pass\n",
    ),
    Finds(
        "names with a suffix of their own, beside numbers alone",
        "import torch\n\ndef f(selected):\n    major, minor = torch.cuda.get_device_capability()\n"
        '    arch = f"sm_{major}{minor}"\n    known = arch in {"sm_100a", "sm_103a"}\n'
        "    if not known:\n        raise ValueError\n",
        {7: (100, 103)},
    ),
    Finds("through partial and lru_cache", _DEFINED + "if is_new():\n    pass\n", {8: (100, 103, 107, 120, 121)}),
    Finds(
        "negated, with an exception: the named test is what lets through",
        _DEFINED + "if x and not is_new():\n    raise ValueError\n",
        {8: (100, 103, 107, 120, 121)},
        {8: "is_new()"},
    ),
    Finds(
        "the branch for another maker's GPUs is left out",
        "import torch\ndef able():\n    major, minor = torch.cuda.get_device_capability()\n"
        "    if is_musa():\n        return major >= 3\n    if torch.version.cuda >= '12.3':\n"
        "        return major == 9 or major == 8\n    return False\n\nif not able():\n    raise ValueError\n",
        {10: (80, 86, 87, 88, 89, 90)},
    ),
    Finds(
        "a family from one of its members on",
        "from cutlass.base_dsl.arch import Arch\n\nclass Kernel:\n    def __init__(self):\n"
        "        self.arch = BaseDSL._get_dsl().get_arch_enum()\n"
        "        if self.arch.is_family_of(Arch.sm_103f):\n            pass\n"
        "        if self.arch.is_family_of(Arch.sm_100f):\n            pass\n",
        {6: (103, 107), 8: (100, 103, 107)},
    ),
    Finds(
        "a relation in the name of a predicate from elsewhere",
        "from lib.target import cuda_capability_geq\nif cuda_capability_geq(9):\n    pass\n"
        "if cuda_capability_geq(10, 3):\n    pass\n",
        {2: (90, 100, 103, 107, 110, 120, 121), 4: (103, 107, 110, 120, 121)},
    ),
)
