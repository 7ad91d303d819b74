"""The lab: a small kernel library and a small tensor-parallel server with the story's gates, for CPU.

``lab-kernels`` (import ``labkernels``) is to ``lab-engine`` (import ``labengine``) as FlashInfer is to SGLang.
:func:`ungate.lab.install.install` writes both into a folder as ordinary installed distributions. Nothing is
simulated: the model's matrices are multiplied, the ranks are processes, the fused allreduce is compiled by
the system's C++ compiler and spins on shared memory. There is no GPU, so the architecture is a macro,
``-D__CUDA_ARCH__=1200``, from ``LAB_CUDA_ARCH_LIST``, which also answers for the device's capability.

The gates, from flag to kernel
    ==========================================  ===========================================================
    labengine/server_args.py                    on by default for listed models where sm90 or sm100; the flag
                                                ``--enable-fused-allreduce`` goes round it
    labengine/communicator.py                   ``_is_sm90_supported or _is_sm100_supported``, and at most
                                                ``FUSE_ALLREDUCE_MAX_BATCH_SIZE`` (64) rows: silent when closed
    labkernels/jit/comm.py                      ``supported_major_versions=[9, 10]``; refuses in words
    …/labkernels/comm/allreduce_fusion.h        both kernels of the served path, 900 to below 1200, no #else:
                                                hollow on sm_120 when only the gate above is opened
    …/labkernels/norm.h                         on the served path, 900 and up: open
    …/labkernels/comm/allreduce.h               two kernels of the same module that this engine does not call,
                                                900 to below 1200
    ==========================================  ===========================================================

    Kernels are unmangled symbols ``lab_kernel_*``; a hollow one is a lone return (1 byte on x86-64).

Server
    ``python -m labengine.launch --port P --tp N [--enable-fused-allreduce] [--model lab-next|lab-dense|lab-wide]
    [--max-num-seqs 16] [--seed 0] [--host 127.0.0.1]``, N of 1, 2, 4 or 8. ``lab-next`` (the default) is not among
    the models that switch the fusion on by default. Context 1,024 tokens, vocabulary 512, ``</s>`` is 257.
    Exit codes: 0 after SIGTERM or SIGINT, 1 when the start failed or a rank died, 2 for a bad command line.
    One server process and N forked ranks (``labengine-tp0`` …), each with one BLAS thread. Memory between them is
    anonymous and counters are eventfds: nothing has a name in /dev/shm or the file system. A rank dies with its parent.

Endpoints
    ``POST /v1/completions``  ``prompt`` (text: a token a byte; or token ids below 512), ``max_tokens``, ``stream``,
    ``stream_options.include_usage``, ``ignore_eos``, ``logprobs`` (0-20; adds ``logprobs.token_ids``; null for NaN),
    ``return_token_ids`` (adds ``choices[0].token_ids``); decoding is greedy, a temperature but 0 is refused.
    One event a token; the last one carries ``finish_reason``; then usage, if asked for, and ``[DONE]``. When a rank
    dies, a stream ends in an error event and ``[DONE]``, as vLLM's does.
    ``GET /health``  200; 503 when a rank died (for 0.5 s, then the server ends) or owes an answer for more than 8 s
    (200 again when the answer comes); idle ranks are asked every second.
    ``GET /v1/models``
    ``GET /metrics``  Prometheus text, prefix ``lab:``; ``GET /server_info``  JSON: ``counters`` (the same, without the
    prefix), ``ranks`` (a list a counter, one number a rank), ``args``, ``pids``, ``device_capability``.

Counters
    ``prompt_tokens_total``, ``generation_tokens_total``, ``requests_finished_total``, ``requests_failed_total``,
    ``requests_running``, ``requests_waiting``, ``prefix_cache_hit_tokens_total`` (0: there is no such cache),
    ``steps_total``, ``all_reduce_calls_total`` (the engine's own, which sleeps), ``fused_calls_total`` (the library's,
    counted after each native call has returned: proof of dispatch, also for a hollow kernel),
    ``fused_polls_total`` (counted by the kernel while it spins; stays 0 for a hollow one). Updated after each step.

Log (stderr), one line each, after ``HH:MM:SS.mmm [server|TPn]``
    ``labengine 0.5.0, lab-next, 4 ranks, capability 12.0, fused allreduce enabled``;
    ``compiling allreduce_comm for sm_120 into …``; ``rank 0 of 4 is ready: pid 123``; ``serving on http://127.0.0.1:P``;
    ``fused allreduce active: 4 ranks, hidden 256, …/allreduce_comm.so`` (once, after the first fused call);
    ``rank 1 (pid 123) was killed by signal 9, shutting down``; ``stopped with code 0``. A start that fails prints
    the rank's traceback and after it ``The engine did not start; the root cause stands above.``

Environment
    ``LAB_CUDA_ARCH_LIST``  ``12.0`` or ``"9.0 12.0a"``; the first is the device's. Unset: no architecture is known.
    ``LAB_KERNELS_CACHE``   the kernel cache, else ``$XDG_CACHE_HOME/labkernels`` or ``~/.cache/labkernels``. Layout:
    ``<version>/<arch>/cached_ops/allreduce_comm/`` with .so, .o, .d and ``manifest.json`` (sha256 of every input).
    ``CXX``                 the compiler, else c++, g++ or clang++.
    ``LAB_SPIN_LIMIT_S``    how long a kernel waits for a peer before it fails (60).
    ``LAB_STALL_S``         how long the ranks may owe an answer before /health says 503 (8).
    ``LAB_FAULT``           a fault of the last rank: ``die-at-start``, ``hang-at-start``, ``slow-start:S``,
    ``die-after:N``, ``hang-after:N``, ``nan-after:N`` (N counts steps with work), ``slow-steps:S``.

Build
    ``python -m labkernels.build`` compiles the module for every listed architecture and prints JSON:
    ``{"version", "kernel_prefix", "modules": [{"module", "arch", "library", "objects", "seconds", "cached"}]}``.
"""
