"""What integer expressions of a C++ file come to."""

from __future__ import annotations

import pytest

from ungate.source.cuda.constants import Constants

FILE = """
#define STAGES 4
#define TWICE(x) (2 * (x))
static constexpr int kTile = 128;
constexpr size_t kBytes = STAGES * kTile * kTile * sizeof(half);
const uint32_t mask = 0xFFu;
int shmem = (size_t)kBytes + 1024;  // int hidden = 3;
int twice = 1;
int twice = 2;
int loop = loop + 1;
auto from_function = f(3);
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("48 * 1024", 49152),
        ("STAGES", 4),
        ("kBytes", 131072),
        ("shmem", 132096),
        ("mask + 1", 256),
        ("(1 << 10) - kTile / 3", 982),
        ("static_cast<int>(kTile)", 128),
        ("-STAGES", -4),
        ("sizeof(float4) * 2", 32),
        ("twice", None),
        ("loop", None),
        ("from_function", None),
        ("hidden", None),
        ("TWICE(3)", None),
        ("sizeof(Storage)", None),
        ("unknown + 1", None),
        ("1 / 0", None),
        ("1 << 400", None),
        ("a ? b : c", None),
        ("", None),
    ],
)
def test_values(expression: str, value: int | None) -> None:
    assert Constants(FILE).value(expression) == value
