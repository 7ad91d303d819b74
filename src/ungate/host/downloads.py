"""Getting one wheel from the package index, through the installer that the user has configured.

pip and uv know the user's index, proxy, certificates and credentials; ungate asks them instead of
speaking to an index itself. What they answer is sorted into the reasons a user can act on.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path

from packaging.requirements import Requirement

from ungate.errors import Refusal, shell
from ungate.host import children

__all__ = ["DEADLINE_S", "by_pip", "by_uv", "have_pip", "uv"]

DEADLINE_S = 3600.0
"""For one download; the largest wheels here (prebuilt kernels) are above a gigabyte."""

_CONNECTION = re.compile(
    r"connection broken by|connection error|ConnectionError|Connection refused|Max retries exceeded|ReadTimeout"
    r"|IncompleteRead|ProtocolError|SSLError|NameResolutionError|ProxyError|error sending request|tcp connect error"
    r"|dns error|Failed to fetch|operation timed out|\b(?:403|407|429|5\d\d) (?:Client|Server) Error",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|os error (?:28|122)\b")
_QUICK = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")


def have_pip() -> bool:
    """Whether ungate's interpreter has a pip of its own (an environment made by uv has none)."""
    return importlib.util.find_spec("pip") is not None


def uv() -> str | None:
    """The uv on PATH, or None."""
    return shutil.which("uv")


def by_pip(requirement: Requirement, into: Path) -> Path:
    """Download the wheel of ``requirement`` into the folder ``into`` with ``pip download``; returns the wheel."""
    log = into / "pip.log"
    command = [sys.executable, "-m", "pip", "download", "-vv", *_QUICK, "--no-deps", "--only-binary=:all:"]
    outcome = children.run([*command, "--dest", into, "--", str(requirement)], deadline_s=DEADLINE_S, log=log)
    found = sorted(into.glob("*.whl"))
    if outcome.code == 0 and not outcome.timed_out and len(found) == 1:
        return found[0]
    if outcome.timed_out:
        raise _too_slow(requirement)
    said = log.read_text(encoding="utf-8", errors="replace")
    raise _no_room(requirement, into) if _full(into, said) else _pip_refusal(requirement, said)


def by_uv(requirement: Requirement, into: Path) -> Path:
    """Install ``requirement`` alone into a new folder below ``into`` with ``uv pip install --target``; that folder.

    uv has no ``download``. Copies, because a hard link into uv's cache would let an edit reach other environments.
    """
    program, target, log = uv(), into / "target", into / "uv.log"
    assert program is not None
    how = ("--no-progress", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy", "--python", sys.executable)
    command: list[str | Path] = [program, "pip", "install", *how, "--target", target, "--", str(requirement)]
    outcome = children.run(command, deadline_s=DEADLINE_S, log=log)
    if outcome.code == 0 and not outcome.timed_out and target.is_dir():
        (target / ".lock").unlink(missing_ok=True)
        return target
    if outcome.timed_out:
        raise _too_slow(requirement)
    if _full(into, outcome.output):
        raise _no_room(requirement, into)
    raise _uv_refusal(requirement, outcome.output)


def _too_slow(requirement: Requirement) -> Refusal:
    return Refusal(
        f"The download of '{requirement}' was stopped after {DEADLINE_S / 60:.0f} minutes.",
        f"Download it by hand and name the folder: pip install --no-deps --target DIR '{requirement}'",
    )


def _unreachable(requirement: Requirement, quote: str) -> Refusal:
    return Refusal(
        f"The package index could not be reached for '{requirement}': {quote}",
        f"Check the network and the proxy, then try: python -m pip download --no-deps '{requirement}'",
    )


def _unknown_name(requirement: Requirement, quote: str) -> Refusal:
    return Refusal(
        f"The package index knows no distribution '{requirement.name}': {quote}",
        f"Check the spelling (the name on the index, not the import name): pip index versions {requirement.name}",
    )


def _source_only(requirement: Requirement, quote: str) -> Refusal:
    return Refusal(
        f"'{requirement}' is published as source only, and ungate does not run the build code of a package: {quote}",
        f"Build it yourself and name the folder: pip install --no-deps --target DIR '{requirement}'",
    )


def _other_platform(requirement: Requirement, quote: str) -> Refusal:
    return Refusal(
        f"'{requirement}' has no wheel for Python {sys.version_info.major}.{sys.version_info.minor} "
        f"on this platform ({sys.platform}): {quote}",
        "Install it where it runs and name that environment: --python PATH or --site DIR",
    )


def _unknown_version(requirement: Requirement, quote: str, known: list[str]) -> Refusal:
    newest = f" The newest there are {', '.join(known[-5:])}." if known else ""
    return Refusal(
        f"'{requirement.name}' has no version that fits '{requirement.specifier}': {quote}{newest}",
        f"Choose another one: {requirement.name}=={known[-1] if known else 'VERSION'}",
    )


def _no_room(requirement: Requirement, into: Path) -> Refusal:
    return Refusal(
        f"'{requirement}' could not be downloaded: no space is left for it in {into}.",
        f"Make room there, or name another folder: df -h {shell(into)}; export UNGATE_CACHE_DIR=DIR",
    )


def _full(folder: Path, said: str) -> bool:
    """Whether the disk is what ended a download: the installer says so, or could not even write that it does."""
    return bool(_NO_SPACE.search(said)) or shutil.disk_usage(folder).free == 0


def _failed(requirement: Requirement, quote: str) -> Refusal:
    return Refusal(
        f"'{requirement}' could not be downloaded: {quote}",
        f"Try it by hand to see everything: python -m pip download --no-deps '{requirement}'",
    )


def _shortened(line: str) -> str:
    """pip lists every version there is, hundreds for some; a sentence needs the last few only."""
    line = line.strip()
    return line if len(line) <= 300 else f"{line[:140]} … {line[-120:]}"


def _pip_refusal(requirement: Requirement, said: str) -> Refusal:
    lines = said.splitlines()
    errors = [line for line in lines if line.startswith("ERROR: ")]
    quote = _shortened((errors or lines or ["pip said nothing"])[-1].removeprefix("ERROR: "))
    quote = f"pip said: {quote}" + ("" if quote.endswith(".") else ".")
    listed = re.search(r"\(from versions: ([^)]*)\)", said)
    known = [version.strip() for version in listed[1].split(",")] if listed and listed[1] != "none" else []
    pins = [spec.version for spec in requirement.specifier if spec.operator in {"==", "==="}]
    skipped = [line for line in lines if line.lstrip().startswith("Skipping link")]
    ours = [line for line in skipped if not pins or re.search(rf"[-_]{re.escape(pins[0])}[-.]", line)]
    if not known and _CONNECTION.search(said):
        broken = [line for line in lines if _CONNECTION.search(line)]
        return _unreachable(requirement, f"pip said: {_shortened(broken[-1].removeprefix('WARNING: '))}.")
    if not listed:
        return _failed(requirement, quote)
    if any("wheel's tags" in line or "not compatible" in line for line in ours):
        return _other_platform(requirement, quote)
    if any("permitted for" in line for line in ours):
        return _source_only(requirement, quote)
    if not known and not any("permitted for" in line or "wheel's tags" in line for line in skipped):
        return _unknown_name(requirement, quote)
    return _unknown_version(requirement, quote, known)


def _uv_refusal(requirement: Requirement, said: str) -> Refusal:
    causes = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(("Using ", "hint:"))]
    quote = f"uv said: {_shortened((causes or ['nothing'])[-1].removeprefix('cause: '))}"
    quote += "" if quote.endswith(".") else "."
    flat = " ".join(said.split())
    if "was not found in the package registry" in flat:
        return _unknown_name(requirement, quote)
    if "no usable wheels" in flat or "building from source is disabled" in flat:
        return _source_only(requirement, quote)
    if "no wheels with a matching" in flat:
        return _other_platform(requirement, quote)
    if "there is no version of" in flat:
        return _unknown_version(requirement, quote, [])
    if _CONNECTION.search(said):
        return _unreachable(requirement, quote)
    return _failed(requirement, quote)
