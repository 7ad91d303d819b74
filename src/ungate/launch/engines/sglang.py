"""SGLang: a tokenizer manager that is the HTTP server, a scheduler a rank and a detokenizer, each its own process."""

from __future__ import annotations

from ungate.launch.engines import Engine, register
from ungate.launch.profiler import Profiler

__all__ = ["SGLANG"]

SGLANG = register(
    Engine(
        name="sglang",
        hints=("sglang",),
        model_options=("--served-model-name", "--model-path", "--model"),
        ready=(r"The server is fired up and ready to roll",),
        fatal=(
            r"Subprocess \S+ \(pid=\d+\) crashed with exit code",
            r"Capture cuda graph failed",
            r"out of memory",
        ),
        echoes=(
            r"(?i)\bsigquit\b",
            r"kill_process_tree",
            r"Killed process tree",
            r"Rank \d+ scheduler is dead",
            r"Initialization failed\. Please see the error messages above",
        ),
        phases=(
            ("distributed", r"Init torch distributed"),
            ("load", r"Load weight begin"),
            ("kv-cache", r"KV Cache is allocated"),
            ("graphs", r"Capture cuda graph begin"),
            ("started", r"Application startup complete"),
            ("ready", r"fired up and ready to roll"),
        ),
        worker=r"sglang::|scheduler|detokenizer|multiprocessing\.spawn",
        rank=r"sglang::scheduler|scheduler_TP",
        passing=r"resource_tracker|compile_worker",
        segments=r"^sglang_loads_",
        counters=("sglang:num_running_reqs", "sglang:generation_tokens_total", "sglang:num_queue_reqs"),
        cache_hits=("sglang:cached_tokens_total",),
        progress=("sglang:generation_tokens_total", "sglang:prompt_tokens_total"),
        steps=r"\b(?:Prefill|Decode) batch\b",
        profiler=Profiler(body={"output_dir": "{folder}", "activities": ["CPU", "GPU"], "with_stack": False}),
    )
)
