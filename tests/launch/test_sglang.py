"""SGLang on the CPU through its engine file: launch, load, answers, the death of its scheduler.

Local only, since the environment is patched together (``sglang_cpu/install.py``): ``UNGATE_SGLANG`` names its folder,
``UNGATE_VLLM`` that of vLLM. Budget 5 minutes on two quiet cores.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from ungate.launch import Watch, detect, ports, serve, wait_ready
from ungate.measure import activation, counters, kernels, ladder, load
from ungate.measure.answers import Rung, collect
from ungate.model import Cell

CELL = Cell(concurrency=2, prompt_tokens=64, output_tokens=16)
LADDER = (Rung(1, 1, 4), Rung(1, 17, 4), Rung(2, 64, 4))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif("UNGATE_SGLANG" not in os.environ, reason="UNGATE_SGLANG names no SGLang environment"),
]


def test_sglang_through_its_engine_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, model = Path(os.environ["UNGATE_SGLANG"]), Path(os.environ["UNGATE_VLLM"]) / "model"
    argv = (
        *(str(folder / "venv" / "bin" / "python"), "-m", "sglang.launch_server", "--model-path", str(model)),
        *("--device", "cpu", "--load-format", "dummy", "--disable-cuda-graph", "--mem-fraction-static", "0.05"),
        *("--enable-metrics", "--host", "127.0.0.1"),
    )
    environment = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(folder / "stub")}
    engine, port = detect(argv), ports.free_port()
    with serve(argv, engine=engine, environment=environment, port=port, folder=tmp_path, deadline_s=900) as server:
        assert engine.name == "sglang" and server.model == str(model)
        ready = wait_ready(server, CELL)
        result = load.run(server.url, server.model, CELL, requests=6, cache_hits=engine.cache_hits)
        # The counter is not there before the cache was first hit.
        assert result.completed == 6 and (result.cached is None or result.cached <= 2 / CELL.prompt_tokens)
        assert set(counters.chosen(server.url, engine.counters)) == set(engine.counters)
        answers = collect(server.url, server.model, LADDER, repeats=2)
        assert ladder.compare(answers, answers).holds is True
        assert engine.profiler is not None
        trace = tmp_path / "trace"
        trace.mkdir()
        with kernels.profiled(server.url, body=engine.profiler.payload(trace), folder=trace):
            collect(server.url, server.model, LADDER[:2])
        operators = kernels.operators(trace)
        proof = activation.read(server.url, {"operator": "scaled_dot_product", "log": "torch_native"}, trace=trace)
        assert proof.ways["operator"] is True, sorted(operators)
        assert set(counters.chosen(server.url, engine.progress)) == set(engine.progress)
        scheduler = next(pid for pid in server.pids() if "scheduler" in " ".join(psutil.Process(pid).cmdline()))
        with Watch(server) as watch:
            begun = time.monotonic()
            os.kill(scheduler, signal.SIGKILL)
            while watch.fault is None and time.monotonic() - begun < 20:
                time.sleep(0.02)
            noticed = time.monotonic() - begun
        deadline = time.monotonic() + 60
        while server.code() is None and time.monotonic() < deadline:
            time.sleep(0.2)
    assert watch.fault is not None and noticed <= 2.0
    stopped, cause = server.stop(), server.cause()
    assert cause is not None and "crashed with exit code -9" in cause.text
    assert stopped.port_free and all(name.startswith("sglang_loads_") for name in stopped.leaked)
    with capsys.disabled():
        print(f"\n  {len(operators)} operators in the trace: {proof.evidence['operator']}")
        print(f"  phases {ready.phases}; kill noticed after {noticed:.2f} s; removed {stopped.leaked or 'nothing'}")
