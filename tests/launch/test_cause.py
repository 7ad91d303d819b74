from __future__ import annotations

import pytest

from ungate.launch.cause import find
from ungate.launch.engines import engine

VLLM = """\
(APIServer pid=10) WARNING 11-29 12:00:00 [system_utils.py:255] failed to raise the limit of open files
(APIServer pid=10) INFO 11-29 12:00:01 [api_server.py:100] version 0.32.0
(Worker_TP0 pid=31) WARNING 11-29 12:00:20 [threads.py:10] Failed to read the NUMA layout, one node is assumed
(Worker_TP0 pid=31) ERROR 11-29 12:01:00 [executor.py:700] WorkerProc failed to start.
(Worker_TP0 pid=31) ERROR 11-29 12:01:00 [executor.py:700] Traceback (most recent call last):
(Worker_TP0 pid=31) ERROR 11-29 12:01:00 [executor.py:700]   File "executor.py", line 670, in worker_main
(Worker_TP1 pid=32) INFO 11-29 12:01:00 [executor.py:600] waiting for its peers
(Worker_TP0 pid=31) ERROR 11-29 12:01:00 [executor.py:700] AssertionError: Not enough NUMA nodes for 2 workers
(EngineCore pid=20) ERROR 11-29 12:01:01 [core.py:900] EngineCore failed to start.
(EngineCore pid=20) ERROR 11-29 12:01:01 [core.py:900] Traceback (most recent call last):
(EngineCore pid=20) ERROR 11-29 12:01:01 [core.py:900]   File "core.py", line 30, in run
(EngineCore pid=20) ERROR 11-29 12:01:01 [core.py:900] Exception: WorkerProc initialization failed due to an \
exception in a background process. See stack trace for root cause.
(APIServer pid=10) Traceback (most recent call last):
(APIServer pid=10)   File "api_server.py", line 12, in <module>
(APIServer pid=10) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_the_last_line_is_not_the_cause() -> None:
    cause = find(VLLM, engine("vllm"))
    assert cause is not None
    assert cause.text == "AssertionError: Not enough NUMA nodes for 2 workers"
    assert cause.kind == "exception" and cause.line == 8
    assert cause.process == "(Worker_TP0 pid=31)"


def test_what_was_logged_once_as_a_warning_is_told_with_the_cause() -> None:
    cause = find(VLLM, engine("vllm"))
    assert cause is not None
    assert cause.before == ("Failed to read the NUMA layout, one node is assumed",)


def test_a_killed_worker_is_the_cause_and_not_the_dead_engine() -> None:
    log = """\
(EngineCore pid=20) ERROR 11-29 12:00:00 [executor.py:200] Worker proc VllmWorker-1 died unexpectedly \
(exit code: -9), shutting down executor.
(EngineCore pid=20) ERROR 11-29 12:00:00 [core.py:900] EngineCore encountered a fatal error.
(EngineCore pid=20) ERROR 11-29 12:00:00 [core.py:900] Traceback (most recent call last):
(EngineCore pid=20) ERROR 11-29 12:00:00 [core.py:900] RuntimeError: cancelled
(APIServer pid=10) ERROR 11-29 12:00:00 [llm.py:50] Traceback (most recent call last):
(APIServer pid=10) ERROR 11-29 12:00:00 [llm.py:50] vllm.v1.engine.exceptions.EngineDeadError: the core is gone
"""
    cause = find(log, engine("vllm"))
    assert cause is not None and cause.kind == "fatal"
    assert "VllmWorker-1 died unexpectedly (exit code: -9)" in cause.text


def test_a_quit_notice_before_the_traceback_is_not_the_cause() -> None:
    """sglang#28521: the notice and the kill-tree line come before the traceback that explains them."""
    log = """\
[2026-06-17 10:00:00] Received sigquit from a child process. It usually means the child failed.
[2026-06-17 10:00:00] kill_process_tree called
[2026-06-17 10:00:01 TP3] Scheduler hit an exception: Traceback (most recent call last):
  File "scheduler.py", line 2000, in run
    self.init()
ValueError: No supported CUDA architectures found for major versions [9, 10].

"""
    cause = find(log, engine("sglang"))
    assert cause is not None
    assert cause.text == "ValueError: No supported CUDA architectures found for major versions [9, 10]."
    assert cause.process == "TP3"


def test_a_crash_line_that_also_speaks_of_quitting_is_the_cause() -> None:
    log = """\
[2026-11-29 17:50:00] server_args={'custom_sigquit_handler': None, 'port': 31996}
[2026-11-29 17:57:51] Subprocess scheduler_0 (pid=14185) crashed with exit code -9. Triggering SIGQUIT for cleanup
[2026-11-29 17:57:51] SIGQUIT received. It usually means one child failed.
[2026-11-29 17:57:56] kill_process_tree called: parent_pid=13645
"""
    cause = find(log, engine("sglang"))
    assert cause is not None and cause.kind == "fatal" and cause.line == 2
    assert cause.text.startswith("Subprocess scheduler_0 (pid=14185) crashed")


def test_of_a_chain_of_exceptions_the_first_is_the_cause() -> None:
    log = """\
Traceback (most recent call last):
  File "a.py", line 1, in f
KeyError: 'sm_120'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 1, in g
RuntimeError: build failed
"""
    cause = find(log, engine("openai"))
    assert cause is not None and cause.text == "KeyError: 'sm_120'"


def test_a_worker_told_to_quit_is_no_cause() -> None:
    log = """\
[TP0] Traceback (most recent call last):
[TP0]   File "a.py", line 1, in f
[TP0] KeyboardInterrupt
[TP1] Traceback (most recent call last):
[TP1]   File "a.py", line 1, in f
[TP1] OSError: invalid device ordinal
"""
    cause = find(log, engine("openai"))
    assert cause is not None and cause.text == "OSError: invalid device ordinal" and cause.process == "TP1"


def test_colours_and_addresses_in_a_prefix_do_not_hide_the_process() -> None:
    log = """\
\x1b[1;36m(EngineCore_0 pid=7)\x1b[0;0m INFO 11-29 12:00:00 [core.py:90] starting
\x1b[36m(RayWorkerWrapper pid=41, ip=10.0.0.2)\x1b[0m ERROR 11-29 12:00:01 [w.py:5] Traceback (most recent call last):
\x1b[36m(RayWorkerWrapper pid=41, ip=10.0.0.2)\x1b[0m ERROR 11-29 12:00:01 [w.py:5] ValueError: no kernel image
\x1b[1;36m(EngineCore_0 pid=7)\x1b[0;0m ERROR 11-29 12:00:02 [core.py:91] EngineCore failed to start.
"""
    cause = find(log, engine("vllm"))
    assert cause is not None and cause.text == "ValueError: no kernel image"
    assert cause.process == "(RayWorkerWrapper pid=41, ip=10.0.0.2)"


def test_the_number_of_a_line_is_that_of_an_editor_although_a_progress_bar_rewrites_its_line() -> None:
    bar = "\r".join(f"Capturing CUDA graphs: {share}%" for share in range(0, 101, 10))
    log = f"start\n{bar}\nTraceback (most recent call last):\n  File x\nRuntimeError: out of slots\n"
    cause = find(log, engine("openai"))
    assert cause is not None and (cause.line, cause.text) == (5, "RuntimeError: out of slots")


@pytest.mark.parametrize(
    ("log", "kind", "text"),
    [
        ("INFO starting\nERROR: cannot read the model\nINFO bye\n", "error", "cannot read the model"),
        ("Received SIGQUIT from a child\n", "echo", "Received SIGQUIT from a child"),
        ("one\ntwo\n\n", "last", "two"),
        ("worker 3: Segmentation fault (core dumped)\nbye\n", "fatal", "worker 3: Segmentation fault (core dumped)"),
    ],
)
def test_without_a_traceback_the_surest_line_is_taken(log: str, kind: str, text: str) -> None:
    cause = find(log, engine("sglang"))
    assert cause is not None
    assert (cause.kind, cause.text) == (kind, text)


def test_an_empty_log_has_no_cause() -> None:
    assert find("", engine("lab")) is None
    assert find("\n\n", engine("lab")) is None
