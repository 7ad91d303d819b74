"""A case of a ``match`` over the capability, a major number or the name of an architecture.

::

    match torch.cuda.get_device_capability()[0]:
        case 9 | 10:
            return fused(x)

    dispatch.py:12  dispatch  passes sm_90 sm_100 sm_103 sm_107

Each case is a gate of its own; ``case _`` is none. What no case takes goes on behind the statement, or raises there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ungate.model import Form
from ungate.scan.asked import asked
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.python.file import PythonFile

__all__ = ["SAMPLES", "find"]


@pattern("py-match", kind="python-capability-compare", language="python", rank=20)
def find(file: PythonFile) -> Iterator[Draft]:
    """Every case that compares with a capability."""
    for question in file.questions:
        if question.context == "case":
            draft = asked(
                file, question, "test", Form.FIXED, "a case of a match: another case must be written to open it"
            )
            yield replace(draft, text=f"case {draft.text}")


_MATCH = """\
import torch
def f(x):
    major, minor = torch.cuda.get_device_capability()
    match {}:
        case {}:
            return one(x)
        case {}:
            return two(x)
        case _:
            return None
"""

SAMPLES = (
    Nothing(
        "words that are no architecture", 'match key:\n    case "sm_count":\n        pass\n    case 9:\n        pass\n'
    ),
    Nothing("a type", _MATCH.format("torch.cuda.get_device_capability()", "int()", "{1: 2}")),
    Finds(
        "a major number",
        _MATCH.format("major", "9 | 10", "12 if x"),
        {5: (90, 100, 103, 107), 7: (120, 121)},
        {5: "9 | 10"},
    ),
    Finds(
        "a tuple", _MATCH.format("torch.cuda.get_device_capability()", "(9, 0)", "[12, _]"), {5: (90,), 7: (120, 121)}
    ),
    Finds(
        "major and minor",
        _MATCH.format("(major, minor)", "(10, 3)", "(m, 0) if m >= 10"),
        {5: (103,), 7: (100, 110, 120)},
    ),
    Finds(
        "the name of an arch",
        'def f(target_arch: str):\n    match target_arch:\n        case "sm_90a" | "sm_100a":\n            return 1\n',
        {3: (90, 100)},
    ),
)
