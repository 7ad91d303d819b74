"""What tests of several rooms share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def story_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FlashInfer 0.6.3 and SGLang 0.5.9, the real wheels, as ``ungate fetch`` unpacks them; for the mark wheels."""
    from ungate.host import index

    folder = tmp_path_factory.mktemp("story") / "site"
    index.install(["flashinfer-python==0.6.3", "sglang==0.5.9"], folder)
    return folder
