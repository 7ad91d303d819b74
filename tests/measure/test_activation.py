from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from ungate.errors import Refusal
from ungate.measure.activation import Proof, Reading, prove, read
from ungate.measure.kernels import launched, operators, profiled


def reading(ran: bool | None, words: str = "seen") -> Reading:
    return Reading({"counter": ran}, {"counter": words})


@pytest.mark.parametrize(
    ("baseline", "candidate", "proof"),
    [
        (False, True, Proof.PROVED),
        (True, True, Proof.DISPROVED),
        (False, False, Proof.DISPROVED),
        (True, False, Proof.DISPROVED),
        (None, False, Proof.DISPROVED),
        (None, True, Proof.UNPROVED),
        (False, None, Proof.UNPROVED),
        (None, None, Proof.UNPROVED),
    ],
)
def test_only_a_path_seen_in_one_arm_and_not_in_the_other_is_proved(
    baseline: bool | None, candidate: bool | None, proof: Proof
) -> None:
    assert prove(reading(baseline), reading(candidate)).proof is proof


def test_ways_that_contradict_each_other_do_not_prove() -> None:
    candidate = Reading({"log": True, "counter": False}, {"log": "line 6", "counter": "calls is 0"})
    baseline = Reading({"log": False, "counter": False}, {"log": "no line", "counter": "calls is 0"})
    activation = prove(baseline, candidate)
    assert activation.proof is Proof.DISPROVED and "calls is 0" in activation.evidence


def test_a_recipe_without_a_proof_is_unproved() -> None:
    activation = prove(Reading({}, {}), Reading({}, {}))
    assert activation.proof is Proof.UNPROVED and "names nothing" in activation.evidence


def test_a_log_line_is_looked_for_in_this_starts_log(tmp_path: Path) -> None:
    log = tmp_path / "server-001.log"
    log.write_text("start\n[TP0] fused allreduce active: 2 ranks\n")
    found = read("http://127.0.0.1:1", {"log": "fused allreduce active"}, log=log)
    assert found.ways["log"] is True and found.evidence["log"].startswith("line 2")
    assert read("http://127.0.0.1:1", {"log": "absent"}, log=log).ways["log"] is False
    assert read("http://127.0.0.1:1", {"log": "x"}, log=tmp_path / "none").ways["log"] is None


def test_sources_that_are_missing_read_as_unknown() -> None:
    found = read("http://127.0.0.1:1", {"counter": "lab:fused_calls_total", "kernel": "allreduce", "dream": "x"})
    assert set(found.ways.values()) == {None}
    assert "no way of proof" in found.evidence["dream"]


def test_kernel_names_are_counted_in_profiler_traces(tmp_path: Path) -> None:
    events = [
        {"cat": "kernel", "name": "allreduce_fusion_kernel_oneshot_lamport<8>", "dur": 9},
        {"cat": "kernel", "name": "allreduce_fusion_kernel_oneshot_lamport<8>", "dur": 9},
        {"cat": "cpu_op", "name": "aten::add"},
    ]
    with gzip.open(tmp_path / "rank0.pt.trace.json.gz", "wt") as stream:
        json.dump({"traceEvents": events}, stream)
    (tmp_path / "broken.json").write_text("{")
    assert launched(tmp_path) == {"allreduce_fusion_kernel_oneshot_lamport<8>": 2}
    found = read("http://127.0.0.1:1", {"kernel": "fusion.*oneshot"}, trace=tmp_path)
    assert found.ways["kernel"] is True and found.evidence["kernel"].startswith("2 calls of")
    assert read("http://127.0.0.1:1", {"kernel": "twoshot"}, trace=tmp_path).ways["kernel"] is False
    assert read("http://127.0.0.1:1", {"kernel": "twoshot"}, trace=tmp_path / "none").ways["kernel"] is None


def test_operators_of_a_cpu_engine_are_read_from_the_same_traces(tmp_path: Path) -> None:
    events = [{"cat": "cpu_op", "name": "_C::shm_allreduce"}, {"cat": "python_function", "name": "all_reduce"}]
    (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": events}))
    found = read("http://127.0.0.1:1", {"operator": "shm_allreduce", "kernel": "shm"}, trace=tmp_path)
    assert found.ways == {"operator": True, "kernel": None}
    assert read("http://127.0.0.1:1", {"operator": "^c10d::"}, trace=tmp_path).ways["operator"] is False


def test_a_line_that_only_the_closed_path_writes_proves_by_its_absence_and_its_presence(tmp_path: Path) -> None:
    closed, opened = tmp_path / "closed.log", tmp_path / "opened.log"
    closed.write_text("start\nSHM communicator disabled, falling back to torch.distributed\n")
    opened.write_text("start\n")
    arms = [read("http://127.0.0.1:1", {"fallback": "falling back"}, log=log) for log in (closed, opened)]
    assert [arm.ways["fallback"] for arm in arms] == [False, True]
    assert prove(*arms).proof is Proof.PROVED
    assert prove(arms[1], arms[1]).proof is Proof.DISPROVED
    assert read("http://127.0.0.1:1", {"fallback": "x"}, log=tmp_path / "none").ways["fallback"] is None


class Profiled(BaseHTTPRequestHandler):
    """Writes its trace after it has answered, as engines whose workers write it do."""

    folder: Path
    bodies: ClassVar[list[object]] = []

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()
        if self.path == "/stop_profile":
            threading.Timer(0.7, self.write).start()

    def write(self) -> None:
        event = {"cat": "cpu_op", "name": "aten::mm"}
        (self.folder / "rank0.json").write_text(json.dumps({"traceEvents": [event]}))

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_trace_that_is_written_after_the_answer_is_awaited(tmp_path: Path) -> None:
    Profiled.folder = tmp_path
    with ThreadingHTTPServer(("127.0.0.1", 0), Profiled) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with profiled(f"http://127.0.0.1:{server.server_port}", body={"output_dir": "/t"}, folder=tmp_path):
            pass
        server.shutdown()
    assert operators(tmp_path) == {"aten::mm": 1}
    assert Profiled.bodies == [{"output_dir": "/t"}, {}]


def test_a_server_without_a_profiler_is_refused() -> None:
    with pytest.raises(Refusal, match="profiler did not answer"), profiled("http://127.0.0.1:1"):
        pass
