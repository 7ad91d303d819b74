from __future__ import annotations

from collections.abc import Iterator

import pytest

from ungate.measure.selfcheck import fake_server


@pytest.fixture(scope="package")
def fake() -> Iterator[str]:
    """A fake server with a first token after 20 ms and 10 ms between tokens."""
    with fake_server(0.02, 0.01) as url:
        yield url
