"""A real engine: vLLM on the CPU with two tensor-parallel workers, its shared-memory allreduce against gloo.

Budget 15 minutes, of which the environment takes 5 the first time. ``UNGATE_VLLM`` names the folder of an environment
that ``vllm_cpu/install.py`` made before.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ungate.errors import Refusal
from ungate.launch import Server, Stopped, Watch, detect, ports, serve, wait_ready
from ungate.measure import activation, counters, kernels, ladder, load
from ungate.measure.activation import Proof, Reading
from ungate.measure.answers import Answers, Rung, collect
from ungate.measure.result import LoadResult, Stop
from ungate.model import Cell

INSTALL = Path(__file__).parent / "vllm_cpu" / "install.py"

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

CELL = Cell(concurrency=4, prompt_tokens=64, output_tokens=32)
SWEEP = (Cell(concurrency=1, prompt_tokens=64, output_tokens=32), CELL)
LADDER = (Rung(1, 1), Rung(1, 16), Rung(1, 17), Rung(4, 64), Rung(1, 256))
PROOF = {"fallback": r"falling back to torch\.distributed", "operator": r"shm_allreduce"}
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "0|1"}
HAS_SHM = "avx512f" in Path("/proc/cpuinfo").read_text()
"""vLLM's wheel has its shared-memory allreduce only in the build for AVX-512."""


@dataclass(frozen=True)
class Run:
    """What one arm gave."""

    sweep: tuple[LoadResult, ...]
    answers: Answers
    proof: Reading
    operators: Mapping[str, int]
    progress: Mapping[str, float]
    cache_hits: float | None
    stop_detected_s: float | None
    kill_detected_s: float | None
    stopped: Stopped
    cause: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("UNGATE_VLLM")
    place = Path(named) if named else tmp_path_factory.mktemp("vllm")
    subprocess.run([sys.executable, str(INSTALL), str(place)], check=True, timeout=1500)
    return place


def command(folder: Path, *more: str) -> tuple[str, ...]:
    python = str(folder / "venv" / "bin" / "python")
    model = ("--model", str(folder / "model"), "--served-model-name", "tiny", "--load-format", "dummy")
    limits = ("--enforce-eager", "--max-model-len", "2048", "--tensor-parallel-size", "2", "--host", "127.0.0.1")
    return (python, "-m", "vllm.entrypoints.openai.api_server", *model, *limits, *more)


def run(folder: Path, logs: Path, *, gloo: bool, hurt: bool) -> Run:
    """One start of one arm: load, answers, proof; with ``hurt`` a worker is then stopped, let go and killed."""
    engine = detect(argv := command(folder))
    assert engine.name == "vllm" and engine.profiler is not None
    roots = [*(folder / "venv" / "lib").glob("python3*/site-packages")]
    arguments, more = engine.profiler.prepared(logs / "trace", roots)
    environment = {**ENVIRONMENT, **more, "VLLM_PLUGINS": "ungate_gloo" if gloo else ""}
    stop_s = kill_s = None
    port = ports.free_port()
    with serve(
        argv, engine=engine, environment=environment, port=port, folder=logs, deadline_s=600, arguments=arguments
    ) as server:
        wait_ready(server, CELL)
        with Watch(server) as watch:

            def look(progress: load.Progress) -> Stop | None:
                watch.progress(progress.tokens)
                return Stop(watch.fault.what) if watch.fault else None

            sweep = [load.run(server.url, server.model, cell, seconds=8, on_progress=look) for cell in SWEEP]
            assert watch.fault is None
        hits = counters.total(counters.read(server.url), server.engine.cache_hits)
        answers = collect(server.url, server.model, LADDER, repeats=1 if gloo else 2)
        with kernels.profiled(server.url, body=engine.profiler.payload(logs), folder=logs / "trace"):
            collect(server.url, server.model, [Rung(4, 64, 4)])
        proof = activation.read(server.url, PROOF, log=server.log.path, trace=logs / "trace")
        operators = kernels.operators(logs / "trace")
        progress = counters.chosen(server.url, engine.progress)
        if hurt:
            stop_s = seconds_until_noticed(server, signal.SIGSTOP)
            os.kill(worker(server).pid, signal.SIGCONT)
            kill_s = seconds_until_noticed(server, signal.SIGKILL)
    cause = server.cause()
    return Run(tuple(sweep), answers, proof, operators, progress, hits, stop_s, kill_s, server.stop(), str(cause))


def worker(server: Server) -> psutil.Process:
    found = [psutil.Process(pid) for pid in server.pids()]
    return next(process for process in found if "Worker_TP1" in " ".join(process.cmdline()))


def seconds_until_noticed(server: Server, number: signal.Signals) -> float:
    with Watch(server) as watch:
        begun = time.monotonic()
        os.kill(worker(server).pid, number)
        while watch.fault is None and time.monotonic() - begun < 60:
            time.sleep(0.02)
        assert watch.fault is not None
        return time.monotonic() - begun


@pytest.fixture(scope="module")
def shm(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(folder, tmp_path_factory.mktemp("shm"), gloo=False, hurt=True)


@pytest.fixture(scope="module")
def gloo(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(folder, tmp_path_factory.mktemp("gloo"), gloo=True, hurt=False)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[str], None]]:
    def tell(text: str) -> None:
        with capsys.disabled():
            print(f"\n  {text}", flush=True)

    yield tell


def test_both_arms_serve_every_request(shm: Run, gloo: Run, say: Callable[[str], None]) -> None:
    for name, result in (*(("shm", each) for each in shm.sweep), *(("gloo", each) for each in gloo.sweep)):
        assert result.completed > 0 and result.failed == 0, result.faults
        assert result.tokens_per_second is not None and result.tpot is not None and result.zero_gaps is not None
        say(
            f"{name} {result.cell}: {result.tokens_per_second:.0f} tok/s, TPOT {result.tpot.mean * 1000:.1f} ms, "
            f"zero gaps {result.zero_gaps:.0%}; {'; '.join(result.invalid) or 'valid'}"
        )


def test_no_prompt_hits_the_prefix_cache(shm: Run) -> None:
    assert shm.cache_hits == 0


def test_the_answers_of_the_arms_agree(shm: Run, gloo: Run, say: Callable[[str], None]) -> None:
    compared = ladder.compare(shm.answers, gloo.answers)
    say(compared.evidence)
    assert compared.holds is True


def test_activation_is_read_from_the_log_and_from_the_profilers_trace(
    shm: Run, gloo: Run, say: Callable[[str], None]
) -> None:
    """Where the CPU has no AVX-512 both arms run gloo, their figures are of one path, and the proof says so."""
    proof = activation.prove(gloo.proof, shm.proof)
    say(proof.evidence)
    if not HAS_SHM:
        say("this CPU has no AVX-512 and vLLM no shared-memory allreduce for it: the arms' figures are not comparable")
        assert proof.proof is Proof.DISPROVED
        return
    assert proof.proof is Proof.PROVED
    assert shm.proof.ways == {"fallback": True, "operator": True}
    assert gloo.proof.ways == {"fallback": False, "operator": False}
    told = {name: count for name, count in gloo.operators.items() if "all_reduce" in name or "allreduce" in name}
    say(f"operators of gloo: {told}")
    assert told, "the trace of the closed path shows what ran instead"


def test_every_counter_of_progress_is_one_that_this_release_has(shm: Run) -> None:
    assert set(shm.progress) == set(detect(("vllm", "serve")).progress)


def test_a_stopped_worker_is_noticed_within_twenty_seconds(shm: Run, say: Callable[[str], None]) -> None:
    assert shm.stop_detected_s is not None
    say(f"SIGSTOP of a worker noticed after {shm.stop_detected_s:.2f} s")
    assert shm.stop_detected_s <= 20


def test_a_killed_worker_is_noticed_within_two_seconds(shm: Run, say: Callable[[str], None]) -> None:
    assert shm.kill_detected_s is not None
    say(f"kill -9 of a worker noticed after {shm.kill_detected_s:.2f} s; the log's cause: {shm.cause}")
    assert shm.kill_detected_s <= 2
    assert "died unexpectedly" in shm.cause or "exit code: -9" in shm.cause


def test_nothing_is_left(shm: Run, gloo: Run, say: Callable[[str], None]) -> None:
    for name, arm in (("shm", shm), ("gloo", gloo)):
        say(f"{name}: stopped in {arm.stopped.seconds:.1f} s, leaked and removed: {arm.stopped.leaked or 'nothing'}")
        assert arm.stopped.port_free
    assert not [entry.name for entry in Path("/dev/shm").iterdir() if entry.name.startswith("vllm_dist_")]
    assert not [process for process in psutil.Process().children(recursive=True) if "vllm" in process.name().lower()]


def numa_nodes() -> int:
    return len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1


@pytest.mark.skipif(numa_nodes() > 1, reason="vLLM refuses two workers only where there is one NUMA node")
def test_a_failed_start_names_the_first_cause(folder: Path, tmp_path: Path, say: Callable[[str], None]) -> None:
    """The last line says only that the engine core failed; the reason stands far above it, in another process."""
    argv = command(folder)
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "VLLM_CPU_OMP_THREADS_BIND"}
    with (
        serve(argv, engine=detect(argv), environment=environment, port=ports.free_port(), folder=tmp_path) as server,
        pytest.raises(Refusal) as told,
    ):
        wait_ready(server, CELL, deadline_s=600)
    say(told.value.what)
    assert "exit code" in told.value.what and "See root cause above" not in told.value.what
    assert "Not enough allowed NUMA nodes" in told.value.what
