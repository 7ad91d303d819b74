"""vLLM (V1 engine): an API server, an engine core and one worker a rank, each its own process."""

from __future__ import annotations

from ungate.launch.engines import Engine, register
from ungate.launch.profiler import Profiler

__all__ = ["VLLM"]

VLLM = register(
    Engine(
        name="vllm",
        hints=("vllm",),
        model_options=("--served-model-name", "--model", "serve"),
        ready=(r"Application startup complete",),
        fatal=(
            r"Worker proc \S+ died unexpectedly",
            r"out of memory",
            r"Segfault encountered",
        ),
        echoes=(
            r"See root cause above",
            r"EngineDeadError",
            r"EngineCore (failed to start|encountered a fatal error)",
            r"WorkerProc (failed to start|initialization failed)",
            r"Engine core proc \S* ?died unexpectedly",
            r"WorkerProc initialization failed due to an exception in a background process",
            r"cancelled$",
        ),
        phases=(
            ("architecture", r"Resolved architecture"),
            ("engine", r"Initializing a V1 LLM engine"),
            ("load", r"Starting to load model"),
            ("kv-cache", r"KV cache size"),
            ("warm-up", r"init engine .* took"),
            ("serving", r"Starting vLLM (API )?server"),
            ("started", r"Application startup complete"),
        ),
        worker=r"VLLM::|EngineCore|Worker|multiprocessing\.spawn",
        rank=r"Worker",
        passing=r"resource_tracker|compile_worker",
        segments=r"^vllm_dist_",
        counters=("vllm:num_requests_running", "vllm:generation_tokens_total", "vllm:num_preemptions_total"),
        cache_hits=("vllm:prefix_cache_hits_total",),
        progress=("vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:iteration_tokens_total_count"),
        profiler=Profiler(
            # Without stacks and without the front end a trace of a few steps stays at some megabytes.
            arguments=(
                "--profiler-config.profiler=torch",
                "--profiler-config.torch_profiler_dir={folder}",
                "--profiler-config.torch_profiler_with_stack=false",
                "--profiler-config.ignore_frontend=true",
            ),
            environment={"VLLM_TORCH_PROFILER_DIR": "{folder}", "VLLM_TORCH_PROFILER_WITH_STACK": "0"},
            since="vllm/config/profiler.py",
        ),
        environment={"VLLM_NO_USAGE_STATS": "1"},
    )
)
