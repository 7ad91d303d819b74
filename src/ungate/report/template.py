"""Escaping templates, one beside the module that fills it, and the few filters that sections share."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

__all__ = ["html"]

_UNKNOWN = Markup('<span class="unknown">unknown</span>')


def _number(value: float | None, digits: int = 1, unit: str = "") -> str | Markup:
    if value is None:
        return _UNKNOWN
    return f"{value:,.{digits}f}{' ' + unit if unit else ''}"


def _percent(ratio: float | None) -> str | Markup:
    return _UNKNOWN if ratio is None else f"{(ratio - 1) * 100:+.1f} %"


def _known(value: object) -> object:
    return _UNKNOWN if value is None or value == "" else value


def _archs(passes: list[int] | None) -> str:
    if passes is None:
        return "an unknown set"
    return ", ".join(f"sm_{arch}" for arch in passes) or "none"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ungate.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=_number, percent=_percent, known=_known, archs=_archs)
    return environment


def html(module: str, **values: object) -> str:
    """Fill the template beside ``module``; values are escaped unless they are Markup, a missing name is an error."""
    name = module.removeprefix("ungate.report.").replace(".", "/")
    return _environment().get_template(f"{name}.html").render(**values)
