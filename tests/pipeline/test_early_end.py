"""A load that has collapsed ends within a minute as a measurement, one that hangs ends without; other cells go on."""

from __future__ import annotations

import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ungate.host.environment import Environment, resolve
from ungate.host.progress import silent
from ungate.lab.install import Lab, command, environment, install
from ungate.launch import Watch, engine, ports, serve
from ungate.measure import telemetry
from ungate.model import Arm, Cell, Sample, Target
from ungate.pipeline.loading import Loaded, loaded, told
from ungate.pipeline.records import Context, EarlyEnd, Request
from ungate.pipeline.starting import Start, one
from ungate.recipes import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ONE, FOUR, TWO = Cell(1, 16, 16), Cell(4, 16, 16), Cell(2, 16, 16)
METRIC = "output_tokens_per_second"
CONTEXT = cast(Context, type("C", (), {"report": staticmethod(silent)})())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return install(tmp_path / "site")


def _request(lab: Lab, folder: Path, **changes: Any) -> Request:
    recipe = replace(load("lab-allreduce-fusion"), cells=(ONE, FOUR, TWO))
    request = Request(
        recipe, resolve(lab.site, None), Target(120), folder, command=command(lab, port=0), start_deadline_s=120.0
    )
    return replace(request, **{"load_s": 4.0, **changes})


def _start(request: Request, lab: Lab, name: str, earlier: tuple[Sample, ...] = (), **variables: str) -> Start:
    arm = Arm(name, {**environment(lab, cache=request.folder / "kernels"), **variables})
    return one(request, arm, 0, request.recipe.cells, earlier, CONTEXT, seed=0)


def _speeds(start: Start) -> dict[Cell, float | None]:
    return {sample.cell: sample.value for sample in start.samples if sample.metric == METRIC}


def _early(start: Start, cell: Cell) -> EarlyEnd:
    (found,) = [each for each in start.record.early if each.cell == cell]
    return found


@pytest.mark.parametrize("load_s", [4.0, 300.0])
def test_the_collapsed_cell_ends_within_a_minute_and_the_others_run(lab: Lab, tmp_path: Path, load_s: float) -> None:
    """Budget: two minutes each on 2 quiet cores. However long the load is to last, a minute is enough."""
    baseline = _start(_request(lab, tmp_path), lab, "baseline")
    assert baseline.record.early == ()
    cells = (ONE, FOUR, TWO) if load_s < 60 else (FOUR,)
    recipe = replace(load("lab-allreduce-fusion"), cells=cells)
    request = _request(lab, tmp_path, load_s=load_s, recipe=recipe)
    start = _start(request, lab, "candidate", baseline.samples, LAB_FAULT="slow-steps:0.5@4")
    early = _early(start, FOUR)
    assert early.kind == "collapsed" and early.seconds <= 60.0, early
    healthy, speeds = _speeds(baseline), _speeds(start)
    assert 0 < (speeds[FOUR] or 0.0) < 0.1 * (healthy[FOUR] or 0.0)
    # Two whole servers on a machine with other work differ by a factor at times; half a second a step is far more.
    for cell in set(cells) - {FOUR}:
        assert (speeds[cell] or 0.0) > 0.2 * (healthy[cell] or 0.0), speeds
    seconds = {s.cell: s.value for s in start.samples if s.metric == "load_seconds"}
    assert seconds[FOUR] == pytest.approx(early.seconds) and set(seconds) == set(cells)


def test_a_cell_in_which_the_server_hangs_leaves_the_others_a_fresh_one(lab: Lab, tmp_path: Path) -> None:
    """Budget: two minutes on 2 quiet cores."""
    baseline = _start(_request(lab, tmp_path), lab, "baseline")
    start = _start(_request(lab, tmp_path), lab, "candidate", baseline.samples, LAB_FAULT="hang-after:3@4")
    early = _early(start, FOUR)
    assert early.kind == "hung" and early.seconds <= 60.0, early
    healthy, speeds = _speeds(baseline), _speeds(start)
    assert speeds[FOUR] is None
    for cell in (ONE, TWO):
        assert (speeds[cell] or 0.0) > 0.2 * (healthy[cell] or 0.0), speeds
    assert f"the cells after {FOUR} got a fresh server" in start.record.note
    assert {(arm, cell) for arm, _, cell in start.windows} >= {("candidate", ONE), ("candidate", TWO)}


SPINNING = """
import http.server, json, select, socketserver, sys, threading
turn = threading.Lock()

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words): pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with turn:
            while len(body["prompt"]) >= 16:
                gone = select.select([self.connection], [], [], 0)[0]
                if gone and sys.argv[1] == "slow": return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'data: {"choices": [{"text": "a", "finish_reason": "length"}]}\\n\\ndata: [DONE]\\n\\n')

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

Server(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""


def _spinning(folder: Path, kind: str) -> Loaded:
    """A load of which not one token comes, while the server computes; does it answer once it is left alone?"""
    program = folder / "server.py"
    program.write_text(textwrap.dedent(SPINNING))
    argv = (sys.executable, str(program), kind, "{port}")
    request = Request(
        load("lab-allreduce-fusion"), Environment((), None), Target(120), folder, command=argv, load_s=4.0
    )
    port = ports.free_port()
    healthy = (Sample("baseline", 0, FOUR, METRIC, 100.0, ""), Sample("baseline", 0, FOUR, "ttft_p90", 0.1, "s"))
    with serve(argv, engine=engine("openai"), port=port, folder=folder / "logs") as server:
        while not ports.answers(port):
            time.sleep(0.1)
        server.model = "none"
        with (
            telemetry.Recorder(server.pids) as recorder,
            Watch(server, counters=told(server, ()), gpu=recorder.busiest) as watch,
        ):
            arm = Arm("candidate")
            return loaded(request, arm, FOUR, server, recorder, watch, healthy, seed=0, compiled=lambda: 0)


def test_no_token_at_all_is_a_collapse_of_a_server_that_answers_in_the_end(tmp_path: Path) -> None:
    """Budget: 80 s."""
    found = _spinning(tmp_path, "slow")
    assert found.early is not None and found.early.kind == "collapsed", found.early
    assert found.early.seconds <= 60.0 and not found.broken
    assert "cores" in found.early.reason and "it answered once the load had been given up" in found.early.reason
    assert found.result.valid and 0 < (found.result.tokens_per_second or 0.0) < 0.1
    assert any("upper bound" in note for note in found.result.notes)


def test_no_token_at_all_is_a_hang_of_a_server_that_never_answers(tmp_path: Path) -> None:
    """Budget: 150 s."""
    found = _spinning(tmp_path, "hung")
    assert found.early is not None and found.early.kind == "hung", found.early
    assert found.broken and found.early.seconds <= 60.0
    assert not found.result.valid and found.result.tokens_per_second is None
