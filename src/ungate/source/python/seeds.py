"""How a capability is read, and how names that hold one are spelled.

These are the only names that the reader knows from the start. Every predicate of a package is derived from its
definition. A name that cannot be followed to a definition (a parameter, an attribute of an unknown object) is
taken for a capability where it is spelled like one and is compared with something that is written like one.
"""

from __future__ import annotations

import functools
import re

from ungate.model import KNOWN_ARCHS
from ungate.source.python.capability import Capability
from ungate.source.python.values import ByArch, Each

__all__ = [
    "CAPABILITY",
    "OTHER_MAKERS",
    "TARGETS",
    "is_capability_call",
    "is_capability_name",
    "is_target_set_name",
    "named_archs",
    "part_of_capability",
]

CAPABILITY = ByArch(tuple(Capability(divmod(arch, 10)) for arch in KNOWN_ARCHS))
"""The capability of the device, in no particular notation."""

_CALL = re.compile(
    r"_*(?:get_|query_|detect_|current_|read_|cached_)*_*(?:(?:torch|cuda|gpu|nvidia|nv|device|current)_)*"
    r"(?:compute_capability|capability|compute_cap|sm_version|sm_arch|cuda_arch|device_arch|gpu_arch|device_sm|"
    r"compute_arch|arch_version|arch_enum|cc|arch)(?:_major_minor|_int|_tuple|_version|_number)?"
)
_PROPERTIES = re.compile(r"_*(?:get_)?(?:cuda_)?device_propert(?:y|ies)")
_NAME = re.compile(
    r"_*(?:[a-z0-9]+_)*(?:compute_capability|device_capability|cuda_capability|gpu_capability|capability|compute_cap|"
    r"sm_version|sm_arch|cuda_arch|gpu_arch|device_arch|target_arch|arch_num|arch_number|device_sm|gpu_sm|sm_num|"
    r"sm_major_minor|cc_major_minor|device_cc|compute_cc)(?:_int|_tuple|_version|_number)?"
    r"|_*(?:cc|sm|arch|capability|cap|compute_arch|cuda_cc|sm_ver|smver|arch_str|sm_str)",
    re.I,
)
OTHER_MAKERS = ("xpu", "hpu", "npu", "musa", "hip", "rocm", "mps", "mlu", "tpu")
"""How code names the GPUs of other makers, none of which has a compute capability of NVIDIA's."""

_ASKS = re.compile(r"_*(?:is|has|have|supports?|check|requires?|needs?|validate|set|with)_", re.I)
_MAJOR = re.compile(
    r"_*(?:(?:cc|sm|capability|cap|device|compute|cuda_arch|gpu|device_capability|arch|sm_version)_?)?major"
)
_MINOR = re.compile(
    r"_*(?:(?:cc|sm|capability|cap|device|compute|cuda_arch|gpu|device_capability|arch|sm_version)_?)?minor"
)
_TARGET_SET = re.compile(
    r"_*(?:[a-z0-9]+_)*(?:cuda_archs|target_archs|cuda_arch_list|arch_list|gpu_archs|capabilities|"
    r"supported_archs|archs|compute_capabilities)",
    re.I,
)
_PREDICATE = re.compile(
    r"_*(?:(?:is|has|use|uses|using|on|supports?|enable|build|device|gpu|arch|target)_)*"
    r"_*(?:sm|SM)_?(\d{2,3})([afx]?)(?:_(?:supported|available|enabled|device|gpu|arch))*"
)
_AT_LEAST = re.compile(r"_*(?:is|has)_(?:sm|cuda_arch|capability)_?at_least_(\d{2,3})")
_READS_PART = re.compile(r"_*(?:get|query|read)_(?:(?:device|current|cuda|gpu)_)*(\w+)")

_KEPT = 1 << 16
"""Names whose answers are kept; the same few thousand are asked about over and over."""


@functools.lru_cache(maxsize=_KEPT)
def is_capability_call(name: str) -> bool:
    """Whether a function of this name, whose definition is not at hand, reads the capability."""
    return _CALL.fullmatch(name) is not None or _PROPERTIES.fullmatch(name) is not None


@functools.lru_cache(maxsize=_KEPT)
def is_capability_name(name: str) -> bool:
    """Whether a variable of this name, whose value is not known, holds a capability."""
    return _NAME.fullmatch(name) is not None and _ASKS.match(name) is None


@functools.lru_cache(maxsize=_KEPT)
def is_target_set_name(name: str) -> bool:
    """Whether a collection of this name, whose value is not known, holds the capabilities that are built for."""
    return _TARGET_SET.fullmatch(name) is not None


@functools.lru_cache(maxsize=_KEPT)
def part_of_capability(name: str) -> ByArch | None:
    """The major or minor number, for a variable that is named after it, or a function: ``get_arch_major``."""
    if (read := _READS_PART.fullmatch(name)) is not None:
        name = read[1]
    if _MAJOR.fullmatch(name):
        return ByArch(tuple(arch // 10 for arch in KNOWN_ARCHS))
    if _MINOR.fullmatch(name):
        return ByArch(tuple(arch % 10 for arch in KNOWN_ARCHS))
    return None


@functools.lru_cache(maxsize=_KEPT)
def named_archs(name: str) -> frozenset[int] | None:
    """The archs that a flag such as ``has_sm90`` or ``is_sm12x`` is named after; None where the name tells none."""
    if match := _AT_LEAST.fullmatch(name):
        return frozenset(arch for arch in KNOWN_ARCHS if arch >= int(match[1]))
    if match := _PREDICATE.fullmatch(name):
        number = int(match[1])
        if match[2] in ("x", "X"):
            return frozenset(arch for arch in KNOWN_ARCHS if arch // 10 == number // 10 or arch // 10 == number)
        if 30 <= number <= 130:
            return frozenset(arch for arch in KNOWN_ARCHS if arch == number)
    return None


TARGETS = Each(CAPABILITY)
"""The set of capabilities that are built for; iterating it gives the capability."""
