"""A file is replaced whole or not at all, and a full disk is named."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ungate.host.files import write


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = tmp_path / "kept"
    write(place, b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="kept") as raised:
        write(place, b"new")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(place))
    assert place.read_bytes() == b"old" and [path.name for path in tmp_path.iterdir()] == ["kept"]
