"""What the reader makes of the ways in which Python asks for the architecture, on small sources of several files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.source.python.conftest import gates_of, passes_of

from ungate.host.packages import below
from ungate.model import KNOWN_ARCHS
from ungate.scan import scan
from ungate.source.python.tokens import telling, tells

_FROM_90 = [90, 100, 103, 107, 110, 120, 121]
_HEAD = "import torch\nmajor, minor = torch.cuda.get_device_capability()\n"


def test_a_table_in_another_file_is_found_and_what_it_lacks_is_refused(tmp_path: Path) -> None:
    found = passes_of(
        gates_of(
            tmp_path,
            sizes="MB = 1 << 20\nLIMITS = {\n    9: {2: 64 * MB, 4: size()},\n    10: {2: MB},\n}\nOTHER = {9: 1}\n",
            comm=(
                "import torch\nfrom p.sizes import LIMITS\n\n\nclass Comm:\n    WORLDS = {9: [4, 8], 10: [4]}\n\n"
                "    def __init__(self, n):\n"
                "        self.device_capability = torch.cuda.get_device_capability()[0]\n"
                "        sizes = LIMITS.get(\n            self.device_capability\n        )\n"
                "        if sizes is None:\n            return\n        if n not in sizes:\n            return\n"
                "        self.size = sizes[n]\n\n"
                "    def run(self, n):\n"
                "        if n in self.WORLDS.get(self.device_capability, set()):\n            return 1\n"
            ),
        )
    )
    served = [90, 100, 103, 107]
    assert found == {
        ("sizes", 2): served,
        ("comm", 6): served,
        ("comm", 13): served,
        ("comm", 15): served,
        ("comm", 20): served,
    }


@pytest.mark.parametrize(
    ("test", "passes"),
    [
        ("SIZES.get(cap)", None),
        ("bool(SIZES.get(cap))", [80, 90]),
        ("not SIZES.get(cap, 0) is None", None),
        ("SIZES.get(cap, {}) != {}", [80, 90]),
        ("cap in SIZES", [80, 90]),
        ("cap in SIZES.keys()", [80, 90]),
        ("cap in range(90, 104)", [90, 100, 103]),
        ("80 <= cap < 90", [80, 86, 87, 88, 89]),
        ("divmod(cap, 10)[0] == 9", [90]),
        ("cap // 10 in (9, 12)", [90, 120, 121]),
        ("any(cap // 10 == each for each in (9, 12))", [90, 120, 121]),
        ("all(cap >= each for each in [80, 90])", _FROM_90),
        ("any(low <= cap < high for low, high in ((80, 87), (100, 104)))", [80, 86, 100, 103]),
        ("(True if cap >= 90 else False)", _FROM_90),
        ("cap in FILLED_ELSEWHERE", None),
    ],
)
def test_one_test_of_a_capability(tmp_path: Path, test: str, passes: list[int] | None) -> None:
    text = (
        "import torch\nSIZES = {80: {1: 2}, 90: {1: 2}}\nFILLED_ELSEWHERE = {}\n\n\ndef f():\n"
        f"    major, minor = torch.cuda.get_device_capability()\n    cap = major * 10 + minor\n    return {test}\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    if passes is None:
        assert ("a", 9) not in found
    else:
        assert found["a", 9] == passes


def test_a_table_with_a_key_that_is_not_known_does_not_tell_what_it_lacks(tmp_path: Path) -> None:
    found = gates_of(tmp_path, a=_HEAD + "SIZES = {9: 1, key(): 2}\nif SIZES.get(major) is not None:\n    pass\n")
    assert ("a", 4) not in found


def test_properties_attributes_and_methods_of_a_platform_object(tmp_path: Path) -> None:
    found = passes_of(
        gates_of(
            tmp_path,
            hw=(
                "import functools\nimport torch\n\n\nclass Platform:\n    is_sm90: bool = None\n\n"
                "    def __init__(self):\n        self.capability = torch.cuda.get_device_capability()\n"
                "        self.is_sm90 = self.capability[0] == 9\n\n"
                "    @property\n    def sm_level(self):\n        return self.capability[0]\n\n"
                "    @functools.cached_property\n    def is_modern(self):\n        return self.sm_level >= 10\n\n\n"
                "_PLATFORM = Platform()\n\n\ndef get_platform():\n    return _PLATFORM\n"
            ),
            use=(
                "from p.hw import get_platform\nif get_platform().is_modern:\n    pass\n"
                "if get_platform().sm_level == 12:\n    pass\nif get_platform().is_sm90:\n    pass\n"
            ),
        )
    )
    assert found["use", 2] == [100, 103, 107, 110, 120, 121]
    assert found["use", 4] == [120, 121]
    assert found["use", 6] == [90]


def test_a_flag_that_only_the_callee_reads_is_followed_all_the_same(tmp_path: Path) -> None:
    gates = {
        "flags": "from p.hw import on_new\nENABLED = on_new()\nSCALED = ENABLED and on_new()\n",
        "hw": "import torch\ndef on_new():\n    return torch.cuda.get_device_capability()[0] == 10\n",
        "rule": (
            "import p.flags as flags\nfrom p.hw import on_new\n\n\ndef should_requant(size):\n"
            "    if not (flags.SCALED and size is not None):\n        return False\n    return True\n"
        ),
        "model": "from p.rule import should_requant\n\n\ndef load(size):\n    if should_requant(size):\n        pass\n",
    }
    assert passes_of(gates_of(tmp_path, **gates))["model", 5] == [100, 103, 107]


def test_a_match_is_read_in_a_predicate_and_in_what_it_binds(tmp_path: Path) -> None:
    text = (
        _HEAD + "def able():\n    match major:\n        case 9 | 10:\n            return True\n        case _:\n"
        "            return False\n\nmatch (major, minor):\n    case (12, 0):\n        fast = True\n    case _:\n"
        "        fast = False\n\nif able():\n    pass\nif fast:\n    pass\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    assert found["a", 16] == [90, 100, 103, 107]
    assert found["a", 18] == [120]
    assert found["a", 5] == [90, 100, 103, 107] and found["a", 11] == [120]


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        ("capability and capability[0] >= 9 and extra", _FROM_90),
        ("not (capability[0] == 9 and extra)", [arch for arch in KNOWN_ARCHS if arch != 90]),
        ("not (capability[0] == 9 or extra)", [arch for arch in KNOWN_ARCHS if arch != 90]),
        ("OFF or capability[0] == 9", [90]),
        ("LIMIT > 4 and capability[0] == 9", [90]),
    ],
)
def test_what_a_predicate_joins(tmp_path: Path, body: str, passes: list[int]) -> None:
    text = (
        f"import torch\nLIMIT = 2\nOFF = False\ndef pred(extra):\n"
        f"    capability = torch.cuda.get_device_capability()\n    return {body}\n\nif pred(1):\n    pass\n"
    )
    assert passes_of(gates_of(tmp_path, a=text))["a", 8] == passes


def test_a_reason_why_not_decides_where_it_is_none(tmp_path: Path) -> None:
    text = (
        _HEAD + "def reason():\n    if major not in (9, 10):\n        return 'needs Hopper'\n    return None\n\n"
        "def ok():\n    return reason() is None\n\nif reason() is not None:\n    raise ValueError\n"
        "def f():\n    if reason() is None:\n        return fast()\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    served = [90, 100, 103, 107]
    assert found["a", 9] == served and found["a", 11] == served


def test_a_bound_that_subclasses_set_is_not_decided_by_its_default(tmp_path: Path) -> None:
    text = (
        "import torch\n\n\nclass Op:\n    CUDA_MINIMUM_COMPUTE_CAPABILITY = (5, 0)\n"
        "    CUDA_MAXIMUM_COMPUTE_CAPABILITY = None\n\n    @classmethod\n    def reasons(cls):\n"
        "        device_capability = torch.cuda.get_device_capability()\n"
        "        if device_capability < cls.CUDA_MINIMUM_COMPUTE_CAPABILITY:\n            return ['old']\n"
        "        if device_capability > cls.CUDA_MAXIMUM_COMPUTE_CAPABILITY:\n            return ['new']\n\n\n"
        "class Hopper(Op):\n    CUDA_MINIMUM_COMPUTE_CAPABILITY = (9, 0)\n"
        "    CUDA_MAXIMUM_COMPUTE_CAPABILITY = (9, 0)\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    assert found["a", 11] is None and found["a", 13] is None
    assert found["a", 18] == _FROM_90
    assert found["a", 19] == [75, 80, 86, 87, 88, 89, 90]


@pytest.mark.parametrize(
    "branches",
    [
        "    if major >= 9:\n        block, warps = 128, 8\n    else:\n        block, warps = 64, 4\n",
        "    if major >= 9:\n        kernel[grid](x, BLOCK=128)\n    else:\n        kernel[grid](x, BLOCK=64)\n",
        "    if major >= 9:\n        return 128\n    return 64\n",
        "    if major >= 9:\n        c = Config(128, warps=8)\n    elif x:\n        c = Config(64, warps=8)\n"
        "    else:\n        c = Config(32, warps=4)\n",
        "    block = 128 if major >= 9 else 64\n",
    ],
)
def test_a_choice_of_numbers_is_told_as_one(tmp_path: Path, branches: str) -> None:
    gate = gates_of(tmp_path, a=_HEAD + "def f(x):\n" + branches)["a", 4]
    assert (gate.role, [*gate.passes]) == ("choice", _FROM_90)
    assert "nothing is turned away" in gate.note


@pytest.mark.parametrize(
    "branches",
    [
        "    if major >= 9:\n        block = 128\n    else:\n        raise ValueError\n",
        "    if major >= 9:\n        fast = True\n    else:\n        fast = False\n",
        "    if major >= 9:\n        block = 128\n",
        "    if major >= 9:\n        return hopper(x, 128)\n    return plain(x, 128)\n",
        "    if major >= 9:\n        return 128\n    return None\n",
        "    backend = 'trtllm' if major >= 9 else 'triton'\n",
    ],
)
def test_what_turns_away_or_takes_another_way_is_no_choice_of_numbers(tmp_path: Path, branches: str) -> None:
    gate = gates_of(tmp_path, a=_HEAD + "def f(x):\n" + branches)["a", 4]
    assert gate.role == "test" and not gate.note


def test_a_gate_tells_which_archs_get_as_far(tmp_path: Path) -> None:
    text = (
        "import torch\nfrom lib import is_sm90_supported\n\n\ndef f(x, flag):\n"
        "    major, minor = torch.cuda.get_device_capability()\n    if major < 9:\n        return None\n"
        "    if major == 10 and x:\n        if minor == 3:\n            return 1\n"
        "    elif minor == 1:\n        return 2\n"
        "    if flag and is_sm90_supported():\n        return 3\n    if major == 12:\n        return 4\n"
    )
    gates = gates_of(tmp_path, a=text)
    assert gates["a", 7].note == ""
    assert gates["a", 9].note == "the tests before it leave sm_90 sm_100 sm_103 sm_107 sm_110 sm_120 sm_121"
    assert gates["a", 10].note == "the tests before it leave sm_100 sm_103 sm_107"
    # x may be false for sm_10x, and so may the flag for sm_90: neither is left out by that
    assert gates["a", 12].note == gates["a", 16].note == gates["a", 9].note
    assert [*gates["a", 10].passes] == [103], "the condition's own set stays"


def test_a_part_of_a_tuple_that_is_not_known_does_not_hide_the_others(tmp_path: Path) -> None:
    text = (
        "NAMES = {80: 'ampere', 90: 'hopper'}\n\n\ndef named(spec):\n    sm = spec.sm\n    return sm, NAMES[sm]\n\n\n"
        "def use(spec):\n    effective_sm, name = named(spec)\n    if effective_sm == 90:\n        return 1\n"
    )
    assert passes_of(gates_of(tmp_path, a=text))["a", 11] == [90]


def test_a_size_looked_up_in_two_steps_and_the_zero_that_stands_for_none(tmp_path: Path) -> None:
    text = (
        "import torch\nSIZES = {90: {2: MB, 4: MB}, 100: {2: MB}}\n\n\nclass Comm:\n    def __init__(self, world):\n"
        "        self.size = 0\n        major, minor = torch.cuda.get_device_capability()\n"
        "        device_capability = major * 10 + minor\n"
        "        self.size = SIZES.get(device_capability, {}).get(world, 0)\n"
        "        if self.size == 0:\n            return\n        self.on = True\n\n"
        "    def ok(self):\n        return self.size > 0\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    assert found == {("a", 2): [90, 100], ("a", 11): [90, 100], ("a", 16): [90, 100]}


def test_what_a_function_gives_under_a_name_of_a_dict(tmp_path: Path) -> None:
    text = (
        "import torch\n\n\ndef props():\n    p = torch.cuda.get_device_properties(0)\n"
        "    return dict(count=p.multi_processor_count, compute_capability=(p.major, p.minor))\n\n\n"
        "def supports_tma():\n    return props()['compute_capability'][0] >= 9\n"
    )
    assert passes_of(gates_of(tmp_path, a=text))["a", 10] == _FROM_90


@pytest.mark.parametrize(
    ("test", "passes"),
    [
        ("major == 7 and (minor < 5 or dtype != 1)", [75]),
        ("major >= 9 and (flag or minor == 3)", _FROM_90),
        ("flag and (other or major == 9)", [90]),
        ("(flag or major == 9) and (other or major == 10)", []),
        ("flag or major == 9", [90]),
    ],
)
def test_alternatives_that_something_free_can_make_true(tmp_path: Path, test: str, passes: list[int]) -> None:
    found = passes_of(gates_of(tmp_path, a=_HEAD + f"def f(dtype, flag, other):\n    if {test}:\n        return 1\n"))
    assert found["a", 4] == passes


def test_a_skipped_test_is_refused_and_a_constant_of_a_dsl_hands_on(tmp_path: Path) -> None:
    text = (
        _HEAD + "import pytest\nHAS_NEW = major == 10\n\n\n@pytest.mark.skipif(not HAS_NEW, reason='old')\n"
        "def test_a():\n    pass\n\n\n@pytest.mark.skipif(major < 9, reason='old')\ndef test_b():\n    pass\n\n\n"
        "def kernel(x):\n    if const_expr(major < 9 or x.width != 16):\n        return plain(x)\n"
        "    use_new = const_expr(major == 12)\n    if use_new:\n        return new(x)\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    assert found["a", 7] == [100, 103, 107] and found["a", 12] == _FROM_90
    assert found["a", 18] == _FROM_90 and found["a", 21] == [120, 121]


def test_a_flag_that_other_things_decide_too_may_be_off_where_it_can_be_on(tmp_path: Path) -> None:
    text = (
        _HEAD + "def use_deep(x):\n    return major in (9, 10) and x.dtype == 1\n\n\n"
        "def f(x):\n    deep = use_deep(x)\n"
        "    if major == 9 and not deep:\n        return 1\n    if not deep:\n        return 2\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    assert found["a", 9] == [90]
    assert found["a", 11] == [90, 100, 103, 107]  # the named test is what lets through


def test_predicates_that_are_all_denied_leave_what_none_of_them_takes(tmp_path: Path) -> None:
    text = (
        _HEAD + "def is_sm90(x):\n    return major == 9 and cuda() > 12\n\n\n"
        "def is_sm100(x):\n    return major == 10 and cuda() > 12\n\n\n"
        "def f(x):\n    if not is_sm90(x) and not is_sm100(x):\n        raise ValueError\n"
        "    if not is_sm100(x) and major < 12:\n        raise ValueError\n"
    )
    found = passes_of(gates_of(tmp_path, a=text))
    assert found["a", 12] == [90, 100, 103, 107]
    assert found["a", 14] == [100, 103, 107, 120, 121]


def test_few_files_are_answered_alike_where_a_table_of_theirs_is_looked_up_elsewhere(tmp_path: Path) -> None:
    top = tmp_path / "p"
    top.mkdir()
    (top / "sizes.py").write_text("LIMITS = {9: 1, 10: 2}\nTILES = {64: 1, 128: 2}\nsmall = {8: 1, 9: 2}\n")
    (top / "use.py").write_text(
        "from p.sizes import LIMITS\n\n\ndef f(capability_major):\n    return LIMITS[capability_major]\n"
    )
    whole = scan(below(top), use_cache=False, jobs=1)
    few = scan(below(top), use_cache=False, jobs=1, files=frozenset({"p/sizes.py"}))
    assert [gate.line for gate in whole.gates if gate.file == "p/sizes.py"] == [1]
    assert few.gates == tuple(gate for gate in whole.gates if gate.file == "p/sizes.py")


def test_no_word_that_tells_is_set_aside_by_the_cheap_look() -> None:
    told = [
        *(b"is_blackwell", b"_is_hopper", b"on_ampere", b"is_sm_at_least_100", b"get_arch_major", b"SUPPORTED_ARCHS"),
        *(
            b"device_capability",
            b"compute_90",
            b"gencode",
            b"device_name",
            b"cc",
            b"sm_90a",
            b"cuda_arch",
            b"nvcc_flags",
        ),
    ]
    for word in told:
        assert telling(word.decode()), word
        assert tells(frozenset({word})), word


def test_a_flag_is_what_the_statements_before_it_leave_and_ends_where_it_is_set_under_itself(tmp_path: Path) -> None:
    text = (
        _HEAD + "_is_fast = major >= 9\nif _is_fast:\n    try:\n        from fast import kernel\n"
        "    except ImportError:\n        kernel = None\n        _is_fast = False\nelse:\n    _is_fast = False\n\n\n"
        "class Layer:\n    def __init__(self):\n        self.path = _is_fast and self.path_asked()\n\n"
        "    def start(self):\n        if not self.path:\n            self.path = None\n\n"
        "    def run(self, x):\n        if self.path and x:\n            return kernel(x)\n"
    )
    found = passes_of(gates_of(tmp_path, layer=text))
    assert found == {("layer", line): _FROM_90 for line in (3, 4, 16, 19, 23)}


def test_only_what_is_bound_before_a_line_of_the_module_counts_there(tmp_path: Path) -> None:
    text = _HEAD + "fast = major >= 9\nif fast:\n    first()\nfast = major >= 10\nif fast:\n    second()\n"
    found = passes_of(gates_of(tmp_path, layer=text))
    assert found[("layer", 4)] == _FROM_90 and found[("layer", 7)] == [100, 103, 107, 110, 120, 121]
