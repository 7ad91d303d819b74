"""A capability is looked up in a table, and what is no key raises.

::

    self.max_size = _MAX_SIZES[self.capability][world_size]

    custom_all_reduce.py:120  CustomAllreduce.__init__  passes sm_80 sm_90

Where the table is written is a gate of its own (``py-table``). A look-up that only keys get as far as is none, and
neither is ``table.get(…)``: the test of what it gives decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from ungate.model import Form
from ungate.scan.asked import asked
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.python.file import PythonFile

__all__ = ["SAMPLES", "find"]


@pattern("py-lookup", kind="dispatch-table", language="python", rank=55)
def find(file: PythonFile) -> Iterator[Draft]:
    """Every ``TABLE[capability]`` that some architectures fail."""
    for question in file.questions:
        if question.context == "lookup":
            yield asked(file, question, "use", Form.FIXED, "opened by a further entry where the table is written")


_TABLE = "import torch\n_SIZES = {9: {2: 64}, 10: {2: 64}}\nmajor, minor = torch.cuda.get_device_capability()\n"

SAMPLES = (
    Nothing(
        "keys for all",
        "_S = {7: 0, 8: 1, 9: 2, 10: 3, 11: 4, 12: 5}\ndef f(cc_major):\n    return _S[cc_major]\n",
    ),
    Nothing("only keys get as far", _TABLE + "def f():\n    if major in _SIZES:\n        return _SIZES[major][2]\n"),
    Nothing("a table of something else", "_S = {'a': 1}\ndef f(arch):\n    return _S[arch]\n"),
    Finds("majors", _TABLE + "def f(n):\n    return _SIZES[major][n]\n", {5: (90, 100, 103, 107)}),
)
