"""Follows the function that a recipe names until it hands over what is to be built."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from ungate.build.descriptions import Wanted
from ungate.build.following import Dotted, File, Raised, Unknown
from ungate.errors import Refusal

__all__ = ["handed"]

_Handed = TypeVar("_Handed", bound=Exception)


def handed(file: File, wanted: Wanted, caught: type[_Handed]) -> _Handed | None:
    """The exception by which the followed function hands over its build; None where it returns without.

    Raises :class:`Refusal` where the package itself refuses the target, and where its text does not tell the build.
    """
    try:
        file.call(wanted.function, _values(wanted))
    except caught as found:
        return found
    except Raised as no:
        raise Refusal(
            f"{wanted.package.name} {wanted.package.version} itself refuses to build '{wanted.function}' for "
            f"{wanted.target}: {no}",
            "See the gate that says so: ungate why RECIPE",
        ) from None
    except Unknown as unknown:
        raise Refusal(
            f"How '{wanted.function}' in {wanted.dotted} is built for {wanted.target} cannot be told from its text: "
            f"{unknown}.",
            f"Give the function's parameters in the recipe: [build_arguments] of {wanted.function}",
        ) from None
    return None


def _values(wanted: Wanted) -> dict[str, Any]:
    """The recipe's values, those of PyTorch's types as the name that the package looks up."""
    return {
        name: Dotted(value) if isinstance(value, str) and re.fullmatch(r"torch\.\w+", value) else value
        for name, value in wanted.arguments.items()
    }
