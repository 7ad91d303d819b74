"""The fields of a recipe file, checked at the border; inside, a recipe is ``ungate.model.Recipe``."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from ungate.model import DECIDING, Cell, Recipe, Variant

__all__ = ["problems", "recipe"]

_Word = Annotated[str, StringConstraints(min_length=1)]
_Symbol = Annotated[str, StringConstraints(pattern=r"^\w+(\.\w+)*:\w+(\.\w+)*$")]
_Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
_Pin = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*==[\w.!+]+$")]
_Variable = Annotated[str, StringConstraints(pattern=r"^[^=\s]+$")]
_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]
_RESERVED = {"baseline", "candidate"}
_WORDS = {
    "extra_forbidden": "is not a field of a recipe",
    "missing": "is missing",
    "string_pattern_mismatch": "has not the form {pattern}",
    "too_short": "must not be empty",
}


def _compiles(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"'{text}' is no regular expression ({error})") from None
    return text


def _decides(text: str) -> str:
    if text not in DECIDING:
        raise ValueError(f"a verdict is not made from '{text}', but from {' or '.join(DECIDING)}")
    return text


_Expression = Annotated[_Word, AfterValidator(_compiles)]


class _Proof(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    counter: _Word | None = None
    log: _Expression | None = None
    fallback: _Expression | None = None
    kernel: _Expression | None = None
    operator: _Expression | None = None


class _Cell(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    concurrency: int = Field(ge=1)
    prompt_tokens: int = Field(ge=1)
    output_tokens: int = Field(ge=1)


class _Side(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    environment: dict[_Variable, str] = {}
    arguments: list[str] = []


class _Variant(_Side):
    name: _Slug
    release: list[_Pin] = []
    command: list[_Word] = []


class _Ablation(_Side):
    name: _Slug
    file: str = Field("", pattern=r"^(\w[\w/-]*\.py)?$")
    keywords: dict[_Name, bool | int] = {}


class _Recipe(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: _Slug
    summary: _Word
    packages: list[_Word] = Field(min_length=1)
    entries: list[_Symbol]
    flag: str = Field("", pattern=r"^(--[\w.-]+)?$")
    attribute: str = Field("", pattern=r"^\w*$")
    engine: str = ""
    arguments: list[str] = []
    environment: dict[_Variable, str] = {}
    proof: _Proof = Field(default_factory=_Proof)
    build: str = Field("", pattern=r"^(\w+(\.\w+)*(:\w+)?)?$")
    build_arguments: dict[_Name, bool | int | str] = {}
    kernel_prefix: str = Field("", pattern=r"^\w*$")
    needs_peer_access: bool = False
    instead: str = ""
    cells: list[_Cell] = []
    metric: Annotated[_Word, AfterValidator(_decides)] = DECIDING[0]
    baseline: _Side = Field(default_factory=_Side)
    arms: list[_Variant] = []
    ablations: list[_Ablation] = []

    @model_validator(mode="before")
    @classmethod
    def _fits_a_command(cls, table: Any) -> Any:
        if "\\u0000" in json.dumps(table, default=str):
            raise ValueError("a text holds a NUL character, which no command and no variable can hold")
        return table

    @model_validator(mode="after")
    def _arms_are_told_apart(self) -> _Recipe:
        for names in ([each.name for each in self.arms], [each.name for each in self.ablations]):
            if len(set(names)) < len(names) or _RESERVED & set(names):
                raise ValueError("arms need names of their own, other than baseline and candidate")
        return self


def problems(table: dict[str, object]) -> list[str]:
    """Every error of a recipe's table, each as ``field: what is wrong``; empty where there is none."""
    try:
        _Recipe.model_validate(table)
    except ValidationError as error:
        return [_told(detail) for detail in error.errors()]
    return []


def _told(detail: Any) -> str:
    where = ".".join(str(part) for part in detail["loc"])
    words = _WORDS.get(detail["type"], "")
    said = detail["msg"].removeprefix("Value error, ")
    what = words.format(**detail.get("ctx", {})) if words else said[:1].lower() + said[1:]
    if not where:
        return what
    return f"{where} {what}" if words else f"{where}: {what}"


def recipe(table: dict[str, object]) -> Recipe:
    """The record of a table without errors."""
    read = _Recipe.model_validate(table)
    return Recipe(
        name=read.name,
        summary=read.summary,
        packages=tuple(read.packages),
        entries=tuple(read.entries),
        flag=read.flag,
        attribute=read.attribute,
        engine=read.engine,
        arguments=tuple(read.arguments),
        environment=read.environment,
        proof=read.proof.model_dump(exclude_none=True),
        build=read.build,
        build_arguments=read.build_arguments,
        kernel_prefix=read.kernel_prefix,
        needs_peer_access=read.needs_peer_access,
        instead=read.instead,
        cells=tuple(Cell(cell.concurrency, cell.prompt_tokens, cell.output_tokens) for cell in read.cells),
        metric=read.metric,
        baseline=Variant("baseline", read.baseline.environment, tuple(read.baseline.arguments)),
        arms=tuple(map(_variant, read.arms)),
        ablations=tuple(
            Variant(each.name, each.environment, tuple(each.arguments), file=each.file, keywords=each.keywords)
            for each in read.ablations
        ),
    )


def _variant(read: _Variant) -> Variant:
    return Variant(read.name, read.environment, tuple(read.arguments), tuple(read.release), tuple(read.command))
