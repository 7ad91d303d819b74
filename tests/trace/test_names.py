"""What a dotted name means at a place in the code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ungate.trace.chain import Trace

Of = Callable[..., Trace]

LIBRARY = {
    "lib/__init__.py": "from .core import work as work\nfrom .more import *\n",
    "lib/core.py": """
        import functools

        def work(): ...

        @functools.cache
        def get_module():
            def run(): ...
            return SimpleNamespace(run=run, other=run)

        class Base:
            def inherited(self): ...

        class Thing(Base):
            def method(self): ...

        thing = Thing()
        alias = work
        wrapped = functools.lru_cache(maxsize=1)(functools.partial(work, 1))
        """,
    "lib/more.py": "def starred(): ...\n",
}


def name(trace: Trace, text: str, body: str) -> str | None:
    module = trace.graph.names.module("app.main")
    assert module is not None
    thing = trace.graph.names.text(text, module.scopes[body])
    return str(thing) if thing else None


@pytest.mark.parametrize(
    ("body", "text", "means"),
    [
        pytest.param("x = unknown.y", "unknown.y", None, id="a name nobody defines"),
        pytest.param("x = x.step()", "x.step", None, id="a name that is defined by itself"),
        pytest.param("from lib.core import work as w", "w", "lib.core:work", id="import under another name"),
        pytest.param("import lib", "lib.work", "lib.core:work", id="re-export"),
        pytest.param("import lib", "lib.starred", "lib.more:starred", id="star import"),
        pytest.param("import lib.core as c\nk = c", "k.alias", "lib.core:work", id="module object and alias"),
        pytest.param("from lib.core import wrapped", "wrapped", "lib.core:work", id="partial under a cache"),
        pytest.param("from lib.core import thing", "thing.method", "lib.core:Thing.method", id="method of an instance"),
        pytest.param("from lib.core import thing", "thing.inherited", "lib.core:Base.inherited", id="inherited method"),
        pytest.param(
            "from lib.core import get_module as g",
            "g().other",
            "lib.core:get_module.run",
            id="handed out by a cached getter",
        ),
    ],
)
def test_names(trace: Of, body: str, text: str, means: str | None) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    found = name(trace({**LIBRARY, "app/main.py": f"def f():\n{lines}\n"}), text, "f")
    assert found == means


def test_an_unparsable_file_is_named_with_its_reason(trace: Of) -> None:
    made = trace({"app/main.py": "def f(:\n", "app/nul.py": "x = '\0'\n"})
    assert made.graph.names.module("app.main") is None
    assert made.graph.names.module("app.nul") is None
    assert [unread.file for unread in made.corpus.unread] == ["app/main.py", "app/nul.py"]
    assert all(unread.reason.startswith("Python cannot parse it") for unread in made.corpus.unread)
