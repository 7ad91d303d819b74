"""A policy as a TOML file: where to use an opened path, a row a measured cell, and what it was measured with.

::

    format = 1
    feature = "flashinfer-allreduce-fusion"
    target = "sm_120"
    measured = "2026-11-29T21:00:00+00:00"
    series = "9f2c…"
    arguments = ["--enable-flashinfer-allreduce-fusion"]

    [packages]
    flashinfer-python = "0.6.3"

    [place]
    tensor_parallel = 4
    peer_access = true
    gpus = ["NVIDIA RTX PRO 6000 Blackwell"]

    [[cell]]
    concurrency = 16
    prompt_tokens = 1024
    output_tokens = 256
    decision = "keep"
    ratio = 1.08
    low = 1.05
    high = 1.11
    decode = "keep"
    reason = "faster: +8.0 %, and the whole interval is above no difference"

What is not known (a missing peer reading, a cell without an interval) is left out of the file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ungate.errors import Refusal, shell
from ungate.model import Cell, Decision, Place, Policy, PolicyRow

__all__ = ["FORMAT", "dumps", "loads", "read"]

FORMAT = 1

_LARGEST = 1 << 20  # bytes
_Word = Annotated[str, StringConstraints(min_length=1)]
_Named = Literal["keep", "revert", "inconclusive"]
_Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, lt=1 << 31)]
# a recipe's name and never a path: a stranger's policy must not choose which file is read
_Feature = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$")]


class _Place(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    tensor_parallel: _Count | None = None
    peer_access: bool | None = None
    gpus: list[str] = []


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    concurrency: _Count
    prompt_tokens: _Count
    output_tokens: _Count
    decision: _Named
    reason: str = ""
    ratio: _Ratio | None = None
    low: _Ratio | None = None
    high: _Ratio | None = None
    prefill: _Named | None = None
    decode: _Named | None = None


class _Policy(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal[1]
    feature: _Feature
    target: _Word
    cell: list[_Row] = Field(min_length=1)
    place: _Place = Field(default_factory=_Place)
    packages: dict[str, str] = {}
    series: str = ""
    arguments: list[str] = []
    environment: dict[str, str] = {}
    measured: str = ""


def dumps(policy: Policy) -> str:
    """The policy as TOML that :func:`loads` reads back to an equal record."""
    lines = [
        "# Where to use an opened path. Written by ungate; it holds for what stands here and for nothing else.",
        f"# Write it into the packages: ungate patch push --policy FILE. {_summary(policy)}",
        *_fields(
            {
                "format": FORMAT,
                "feature": policy.feature,
                "target": policy.target,
                "measured": policy.measured or None,
                "series": policy.series or None,
                "arguments": list(policy.arguments) or None,
            }
        ),
    ]
    tables: list[tuple[str, Mapping[str, object]]] = [
        ("[environment]", policy.environment),
        ("[packages]", policy.packages),
        (
            "[place]",
            {
                "tensor_parallel": policy.place.tensor_parallel,
                "peer_access": policy.place.peer_access,
                "gpus": list(policy.place.gpus) or None,
            },
        ),
    ]
    tables += [("[[cell]]", _row(row)) for row in policy.rows]
    for heading, values in tables:
        written = list(_fields(values))
        if written:
            lines += ["", heading, *written]
    return "\n".join(lines) + "\n"


def _summary(policy: Policy) -> str:
    if policy.nowhere:
        return "It is used nowhere."
    spans = " and ".join(str(low) if low == high else f"{low} to {high}" for low, high in policy.spans())
    if policy.everywhere:
        return f"It is used in every measured cell ({spans} requests in flight)."
    return f"It is used at {spans} requests in flight." if spans else "It is used in single cells only."


def _row(row: PolicyRow) -> dict[str, object]:
    return {
        "concurrency": row.cell.concurrency,
        "prompt_tokens": row.cell.prompt_tokens,
        "output_tokens": row.cell.output_tokens,
        "decision": row.decision.value,
        "ratio": row.ratio,
        "low": row.low,
        "high": row.high,
        "prefill": row.prefill.value if row.prefill else None,
        "decode": row.decode.value if row.decode else None,
        "reason": row.reason or None,
    }


def _fields(values: Mapping[str, object]) -> Iterator[str]:
    for key, value in values.items():
        if value is None:
            continue
        name = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)
        yield f"{name} = {_value(value)}"


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case str():
            return _text(value)
        case float():
            return repr(value)
        case _:
            return str(value)


def _text(text: str) -> str:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def loads(text: str, where: str) -> Policy:
    """The policy of a TOML text; Refusal that names ``where`` and every error for anything else."""
    advice = "A run writes one: ungate run RECIPE -- SERVER COMMAND"
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # more than tomllib's own: endless numbers, endless nesting
        raise Refusal(f"The policy {where} is not valid TOML: {error}.", advice) from error
    if table.get("format") != FORMAT:
        raise Refusal(f"{where} is no policy of format {FORMAT}.", advice)
    try:
        read = _Policy.model_validate(table)
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise Refusal(f"The policy {where} does not hold: {'; '.join(found)}.", advice) from error
    return Policy(
        feature=read.feature,
        target=read.target,
        rows=tuple(
            PolicyRow(
                cell=Cell(row.concurrency, row.prompt_tokens, row.output_tokens),
                decision=Decision(row.decision),
                reason=row.reason,
                ratio=row.ratio,
                low=row.low,
                high=row.high,
                prefill=None if row.prefill is None else Decision(row.prefill),
                decode=None if row.decode is None else Decision(row.decode),
            )
            for row in read.cell
        ),
        place=Place(read.place.tensor_parallel, read.place.peer_access, tuple(read.place.gpus)),
        packages=read.packages,
        series=read.series,
        arguments=tuple(read.arguments),
        environment=read.environment,
        measured=read.measured,
    )


def read(path: Path) -> Policy:
    """The policy in a file; Refusal where it cannot be read or holds something else."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise Refusal(f"The policy {path} cannot be read: {reason}.", f"Look at it: ls -l {shell(path)}") from error
    if len(data) > _LARGEST:
        raise Refusal(
            f"The policy {path} is larger than {_LARGEST >> 20} MiB, so it is none.", f"See: ls -l {shell(path)}"
        )
    return loads(text, str(path))
