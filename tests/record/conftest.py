"""A ledger's place in each database it can stand in; PostgreSQL is a real server that lives as long as the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_DEADLINE_S = 60


def _program(name: str) -> str:
    """A PostgreSQL program; Debian keeps them out of PATH, one folder a version."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")]))
    assert found, f"The mark postgres needs {name}: apt-get install postgresql"
    return found


def _as_somebody() -> tuple[list[str], int, int]:
    """PostgreSQL refuses to run as root: then another user's rights, and that user's numbers."""
    if os.geteuid() != 0:
        return [], os.geteuid(), os.getegid()
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return (
        ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--no-new-privs"],
        user.pw_uid,
        user.pw_gid,
    )


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a fresh server on a socket of its own, without the name of a database."""
    before, user, group = _as_somebody()
    folder = Path(tempfile.mkdtemp(prefix="ungate-pg-", dir="/tmp"))  # a socket's path must be short
    os.chown(folder, user, group)
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": str(folder)}
    control = [*before, _program("pg_ctl"), "-D", str(folder / "data"), "-w", "-t", str(_DEADLINE_S)]
    options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"

    def carry_out(argv: list[str]) -> None:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=2 * _DEADLINE_S, env=environment, cwd=folder, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        carry_out(
            [*before, _program("initdb"), "-D", str(folder / "data"), "-U", "ungate", "-A", "trust", "-E", "UTF8"]
        )
        carry_out([*control, "-l", str(folder / "log"), "-o", options, "start"])
        try:
            yield f"postgresql://ungate@/{{name}}?host={folder}"
        finally:
            carry_out([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger stands: a path, and the URL of an empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "state" / "ledger.sqlite")
    import psycopg

    url: str = request.getfixturevalue("postgres")
    name = f"ledger_{os.getpid()}_{tmp_path.name.lower()}".replace("-", "_")[:60]
    with psycopg.connect(url.format(name="postgres"), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return url.format(name=name)
