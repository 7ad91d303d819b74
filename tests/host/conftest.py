"""Wheels, folders of packages and a package index, all made here and real to pip."""

from __future__ import annotations

import base64
import hashlib
import http.server
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

MakeWheel = Callable[..., Path]


def _record_hash(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


@pytest.fixture
def make_wheel() -> MakeWheel:
    """Writes a wheel that pip accepts: ``make_wheel(folder, name, version, {file: text}, tag=…)``."""

    def make(
        folder: Path,
        name: str,
        version: str,
        files: Mapping[str, str],
        *,
        tag: str = "py3-none-any",
        entry_points: str = "",
    ) -> Path:
        stem = f"{name.replace('-', '_')}-{version}"
        info = f"{stem}.dist-info"
        content = {place: text.encode() for place, text in files.items()}
        content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n".encode()
        content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
        if entry_points:
            content[f"{info}/entry_points.txt"] = entry_points.encode()
        rows = [f"{place},{_record_hash(data)},{len(data)}" for place, data in content.items()]
        content[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}-{tag}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for place, data in content.items():
                archive.writestr(place, data)
        return path

    return make


@pytest.fixture
def make_site(make_wheel: MakeWheel, tmp_path: Path) -> Callable[..., Path]:
    """Unpacks wheels made from ``name==version`` to files into one folder, as ``pip --target`` would leave it."""

    def make(contents: Mapping[str, Mapping[str, str]], folder: Path | None = None) -> Path:
        site = folder or tmp_path / "site"
        site.mkdir(parents=True, exist_ok=True)
        for requirement, files in contents.items():
            name, _, version = requirement.partition("==")
            with zipfile.ZipFile(make_wheel(tmp_path / "made", name, version, files)) as archive:
                archive.extractall(site)
            info = site / f"{name.replace('-', '_')}-{version}.dist-info"
            (info / "INSTALLER").write_text("pip\n")
        return site

    return make


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package index on this host that pip is configured for; its folder: ``simple/NAME/FILE``."""
    root = tmp_path / "index"
    (root / "simple").mkdir(parents=True)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *args, **kwargs: _Quiet(*args, directory=str(root), **kwargs)
    )
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    for variable in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "PIP_NO_INDEX", "PIP_CONSTRAINT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    yield root / "simple"
    server.shutdown()
    server.server_close()
