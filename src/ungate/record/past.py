"""Own runs that answer for a feature, and whether what they were measured with is still what is here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ungate.host.facts import HostFacts
from ungate.host.packages import canonical
from ungate.model import Target
from ungate.record.rows import Row

__all__ = ["Past", "changes", "past"]


@dataclass(frozen=True, slots=True)
class Past:
    """A run that came to something. ``changed`` names what is different here, ``unsure`` what could not be compared.

    It ``holds`` where nothing is different: True, False, or None where something could not be compared.
    """

    row: Row
    changed: tuple[str, ...]
    unsure: tuple[str, ...]

    @property
    def holds(self) -> bool | None:
        if self.changed:
            return False
        return None if self.unsure else True


def past(
    rows: Sequence[Row],
    feature: str,
    target: Target | None,
    versions: Mapping[str, str] | None,
    facts: HostFacts | None,
) -> tuple[Past, ...]:
    """The runs of ``feature`` for ``target`` that gave a verdict or were stopped for a reason, newest first.

    ``feature`` is a recipe's name, or words that its name holds. Runs that only measured noise are left out.
    """
    words = set(re.findall(r"[a-z0-9]+", feature.lower()))
    found = []
    for row in rows:
        if not words <= set(re.findall(r"[a-z0-9]+", row.recipe.lower())):
            continue
        if target is not None and row.target.rstrip("af") != str(target).rstrip("af"):
            continue
        if row.fingerprint.get("same_arms") is True or not (row.verdicts or row.fingerprint.get("stopped")):
            continue
        changed, unsure = changes(row.fingerprint, versions, facts)
        found.append(Past(row, changed, unsure))
    return tuple(found)


def changes(
    fingerprint: Mapping[str, object], versions: Mapping[str, str] | None, facts: HostFacts | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is different here from what a run was measured with, and what could not be compared, both in words."""
    changed: list[str] = []
    unsure: list[str] = []
    held = fingerprint.get("packages")
    for name, version in held.items() if isinstance(held, Mapping) else ():
        if versions is None:
            unsure.append(f"the version of {name}")
        elif (now := versions.get(canonical(name))) is None:
            changed.append(f"{name} {version} is not installed here")
        elif now != version:
            changed.append(f"{name} is {now} and was {version}")
    for what, then, here in (
        ("the driver", fingerprint.get("driver"), facts.driver if facts is not None else None),
        ("the GPUs", _joined(fingerprint.get("gpus")), _joined([gpu.name for gpu in facts.gpus] if facts else None)),
    ):
        if then is None and here is None and facts is not None:
            continue
        if then is None or here is None:
            unsure.append(what)
        elif then != here:
            changed.append(f"{what}: {here or 'none'}, and was {then or 'none'}")
    return tuple(changed), tuple(unsure)


def _joined(names: object) -> str | None:
    return ", ".join(map(str, names)) if isinstance(names, list | tuple) else None
