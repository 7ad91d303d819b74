"""The lab server that ungate brings along."""

from __future__ import annotations

from ungate.launch.engines import Engine, register

__all__ = ["LAB"]

LAB = register(
    Engine(
        name="lab",
        hints=("labengine",),
        ready=(r"serving on http",),
        fatal=(
            r"rank \d+ \(pid \d+\) (was killed|ended with code)",
            r"cannot listen on",
        ),
        echoes=(r"the root cause stands above",),
        phases=(("ranks", r"rank \d+ of \d+ is ready"), ("serving", r"serving on http")),
        worker=r"labengine",
        rank=r"labengine-tp\d",
        counters=("lab:requests_running", "lab:generation_tokens_total", "lab:fused_calls_total"),
        progress=("lab:steps_total",),
        cache_hits=("lab:prefix_cache_hit_tokens_total",),
    )
)
