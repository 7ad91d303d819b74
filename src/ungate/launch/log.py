"""The log of one start, read from its beginning once."""

from __future__ import annotations

from pathlib import Path

__all__ = ["Log"]

_LIMIT = 8 * 1024 * 1024  # of a longer log the causes at start and end are still within this


class Log:
    """A log file that belongs to one start; ``size`` grows with progress."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cursor = 0
        self._rest = b""

    @property
    def size(self) -> int:
        """Bytes written so far; 0 before the first."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def skip(self) -> None:
        """Leave out what has been written so far."""
        self._cursor, self._rest = self.size, b""

    def lines(self) -> list[str]:
        """The whole lines that came since the last call; a half line waits for its end."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._cursor)
                data = stream.read(_LIMIT)
        except FileNotFoundError:
            return []
        self._cursor += len(data)
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        return whole.decode("utf-8", "replace").splitlines() if newline else []

    def text(self) -> str:
        """Everything written so far (of a very long log the first and the last 4 MB)."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return ""
        if len(data) > _LIMIT:
            data = data[: _LIMIT // 2] + b"\n" + data[-_LIMIT // 2 :]
        return data.decode("utf-8", "replace")
