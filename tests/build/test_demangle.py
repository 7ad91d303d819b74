from __future__ import annotations

import pytest

from ungate.build.demangle import demangled, family


@pytest.mark.parametrize(
    ("mangled", "title"),
    [
        ("_Z6hollowPf", "hollow(float*)"),
        ("_Z4fullILi64EEvPfPKf", "void full<64>(float*, float const*)"),
        ("_ZN10flashinfer4comm1kILb1EEEvv", "void flashinfer::comm::k<true>()"),
        ("plain_c_name", "plain_c_name"),
        ("_Znot a name", "_Znot a name"),
        ("", ""),
    ],
)
def test_names_as_people_write_them(mangled: str, title: str) -> None:
    assert demangled(mangled) == title


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("hollow(float*)", "hollow"),
        ("void full<64>(float*, float const*)", "full"),
        ("void a::b<(a::Kind)1, c<d<int> >, true>(a::P<float>)", "a::b"),
        ("void (anonymous namespace)::k<4>(int)", "{anonymous}::k"),
        ("void a::B<int>::run<2>(int)", "a::B::run"),
        ("plain_c_name", "plain_c_name"),
    ],
)
def test_a_family_is_what_the_source_calls_it(title: str, name: str) -> None:
    assert family(title) == name
