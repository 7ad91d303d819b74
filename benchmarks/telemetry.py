"""The recorder and the spin rule on a real GPU: ``python benchmarks/telemetry.py [--seconds 5] [--json FILE]``.

A child process keeps one GPU idle, busy, or spinning in ``while (!flag)``; the recorder samples it at 10 Hz as it
does a server, the bands are fitted from the idle and the busy sample, and every phase gets its verdict beside the
one that is right. Needs PyTorch, psutil and nvidia-ml-py beside this tree; ends with 1 when a verdict is wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve()
for source in (HERE.parent.parent / "src", HERE.parent.parent / "allreduce" / "src"):
    if source.is_dir():
        sys.path.insert(0, str(source))

SPINNING, FOR_NOBODY = "spinning on a synchronisation", "busy with no request to serve"
SETTLE_S = 1.5
"""Seconds of a phase that are left out: clocks and the sensors' own filters follow the load late."""

SPIN = r"""
struct Arguments { volatile int* flag; unsigned long long limit; };
extern "C" __global__ void wait_for_flag(Arguments a) {
    unsigned long long begun, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    for (;;) {
        for (int polls = 0; polls < 4096; ++polls)
            if (*a.flag) return;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        if (now - begun > a.limit) return;
    }
}
"""


class Arguments(ctypes.Structure):
    """Address of the flag in the device's view, and nanoseconds after which the kernel gives up."""

    _fields_ = (("flag", ctypes.c_uint64), ("limit", ctypes.c_uint64))


# --- the child: work on the GPU -----------------------------------------------------------------------------------


class Work:
    """Everything that one phase can do to the GPU; ``progress`` counts what a server would call tokens."""

    def __init__(self) -> None:
        import torch

        from ungate_allreduce.compile import Nvrtc
        from ungate_allreduce.driver import driver

        self.torch, self.driver = torch, driver()
        self.progress = 0
        self.left = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        self.right = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        self.memory = torch.zeros(256 << 20, device="cuda", dtype=torch.float32)
        self.copy = torch.empty_like(self.memory)
        self.on_host = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self.on_device = torch.zeros(1, device="cuda", dtype=torch.int32)
        self.one = torch.ones(1, dtype=torch.int32, pin_memory=True)
        self.other = torch.cuda.Stream()
        self.blocks = torch.cuda.get_device_properties(0).multi_processor_count
        major, minor = torch.cuda.get_device_capability()
        self.kernel = self.driver.load(ptx(Nvrtc(), f"compute_{major}{minor}"), "wait_for_flag")

    def spin(self, flag: Any, seconds: float, blocks: int, threads: int) -> None:
        """Launch the waiting kernel and return; it ends when its flag is set, or after ``seconds``."""
        arguments = Arguments(flag.data_ptr(), int(seconds * 1e9))
        stream = self.torch.cuda.current_stream().cuda_stream
        self.driver.launch(self.kernel, arguments, grid=(blocks, 1), block=threads, stream=stream, pdl=False)

    def release(self, flag: Any) -> None:
        """Set a flag, as the peer that never came would have."""
        if flag.is_cuda:
            with self.torch.cuda.stream(self.other):
                flag.copy_(self.one, non_blocking=True)
        else:
            flag.fill_(1)
        self.torch.cuda.synchronize()
        flag.zero_()
        self.torch.cuda.synchronize()

    def multiply(self, times: int) -> None:
        for _ in range(times):
            self.torch.matmul(self.left, self.right)
        self.torch.cuda.synchronize()

    def stream_memory(self, times: int) -> None:
        for _ in range(times):
            self.copy.copy_(self.memory)
        self.torch.cuda.synchronize()

    def step(self, name: str) -> None:
        """One step of a phase, tens of milliseconds long; the spinning phases are one long step."""
        match name:
            case "idle":
                time.sleep(0.05)
            case "matmul":
                self.multiply(20)
                self.progress += 20
            case "matmul, a token for twenty":
                self.multiply(20)
                self.progress += 1
            case "memory":
                self.stream_memory(20)
                self.progress += 20
            case "memory, a token for twenty":
                self.stream_memory(20)
                self.progress += 1
            case "collapse":
                # The story's shape: a little work, then a long wait for a peer in every forward pass.
                self.multiply(1)
                self.progress += 1
                self.spin(self.on_device, 0.05, self.blocks, 256)
                self.torch.cuda.synchronize()
            case "waiting for the host":
                self.multiply(1)
                self.progress += 1
                time.sleep(0.05)
            case _:
                raise ValueError(name)

    def waiting(self, name: str) -> Callable[[], None] | None:
        """Begin one long wait and return what ends it; None where the phase consists of steps."""
        shape = {
            "spin on device memory": (self.on_device, self.blocks, 256),
            "spin on host memory": (self.on_host, self.blocks, 256),
            "spin of one block": (self.on_device, 1, 32),
            "spin with no request": (self.on_host, self.blocks, 64),
        }.get(name)
        if shape is None:
            return None
        flag, blocks, threads = shape
        self.spin(flag, 60.0, blocks, threads)
        return lambda: self.release(flag)


def ptx(nvrtc: Any, architecture: str) -> bytes:
    """The waiting kernel as PTX, which the driver compiles: no toolkit is needed."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    created = nvrtc.lib.nvrtcCreateProgram(ctypes.byref(program), SPIN.encode(), b"spin.cu", 0, None, None)
    nvrtc.check(created, "nvrtcCreateProgram")
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={architecture}".encode())
    nvrtc.check(nvrtc.lib.nvrtcCompileProgram(program, 1, options), "nvrtcCompileProgram")
    nvrtc.check(nvrtc.lib.nvrtcGetPTXSize(program, ctypes.byref(size)), "nvrtcGetPTXSize")
    text = ctypes.create_string_buffer(size.value)
    nvrtc.check(nvrtc.lib.nvrtcGetPTX(program, text), "nvrtcGetPTX")
    return text.raw


def work() -> None:
    """Read ``SECONDS NAME`` lines, do each, and tell ``begin``, ``at N`` about ten times a second, and ``end``."""
    gpu = Work()
    gpu.multiply(2)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, _, name = line.strip().partition(" ")
        end, told, gpu.progress = time.monotonic() + float(seconds), 0.0, 0
        release = gpu.waiting(name)
        print("begin", flush=True)
        while time.monotonic() < end:
            if release is None:
                gpu.step(name)
            else:
                time.sleep(0.05)
            if time.monotonic() - told > 0.09:
                told = time.monotonic()
                print(f"at {gpu.progress}", flush=True)
        if release is not None:
            release()
        print("end", flush=True)


# --- the parent: what the recorder sees ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """``band`` names the phase whose sample is the healthy load, ``right`` the verdict that is right."""

    name: str
    band: str
    right: str
    loaded: bool = True


PHASES = (
    Phase("idle", "matmul", "", loaded=False),
    Phase("matmul", "matmul", ""),
    Phase("memory", "memory", ""),
    Phase("spin on device memory", "matmul", SPINNING),
    Phase("spin on device memory", "memory", SPINNING),
    Phase("spin on host memory", "matmul", SPINNING),
    Phase("spin on host memory", "memory", SPINNING),
    Phase("spin of one block", "matmul", SPINNING),
    Phase("spin of one block", "memory", SPINNING),
    Phase("collapse", "matmul", SPINNING),
    Phase("spin with no request", "matmul", FOR_NOBODY, loaded=False),
    Phase("matmul, a token for twenty", "matmul", ""),
    Phase("memory, a token for twenty", "memory", ""),
    Phase("waiting for the host", "matmul", ""),
)


@contextmanager
def child(gpu: int, deadline_s: float) -> Iterator[subprocess.Popen[str]]:
    """The working process on one GPU; killed at the deadline and in any case at the end."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    argv = [sys.executable, str(HERE), "--work"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        timer = threading.Timer(deadline_s, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            process.kill()


def until(process: subprocess.Popen[str], word: str, on_progress: Callable[[int], None] = lambda count: None) -> None:
    """Read the child's lines up to ``word``; RuntimeError when it ends before."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == word:
            return
        if line.startswith("at "):
            on_progress(int(line.split()[1]))
    raise RuntimeError(f"the working process ended before it said '{word}'")


def measure(gpu: int, seconds: float) -> Any:
    """The series of one recorder over every phase."""
    from ungate.measure.telemetry import Recorder

    names = list(dict.fromkeys(phase.name for phase in PHASES))
    with child(gpu, 120 + len(names) * (seconds + SETTLE_S + 10)) as process:
        until(process, "ready")
        with Recorder([process.pid]) as recorder:
            assert process.stdin is not None
            for name in names:
                process.stdin.write(f"{seconds + SETTLE_S + 0.5} {name}\n")
                process.stdin.flush()
                until(process, "begin")
                reader = threading.Thread(target=until, args=(process, "end", recorder.tokens))
                reader.start()
                time.sleep(SETTLE_S)
                with recorder.phase(name):
                    time.sleep(seconds)
                reader.join()
                print(f"  {name}", file=sys.stderr, flush=True)
        return recorder.series()


def told(series: Any, gpu: int) -> dict[str, Any]:
    """The verdicts, the means they rest on, and how well the recorder kept its time."""
    from ungate.measure import spin

    windows = {name: only(series.window(name), gpu) for name in {phase.name for phase in PHASES}}
    rows = []
    for phase in PHASES:
        window = windows[phase.name]
        found = spin.diagnose(window, spin.fit(windows["idle"], windows[phase.band]), loaded=phase.loaded)
        verdict = found.what if found else ""
        rows.append({**asdict(phase), "verdict": verdict, "evidence": found.evidence if found else ""})
        rows[-1]["as_it_should_be"] = verdict == phase.right
    steps = [after - before for before, after in pairwise(series.times)]
    columns = [column for column in series.columns if column.name.startswith(f"{gpu}/")]
    return {
        "gpu": device(gpu),
        "sampling": {
            "samples": len(series.times),
            "median_s": median(steps),
            "p99_s": sorted(steps)[int(0.99 * len(steps))],
            "never_read": [column.name for column in columns if all(value is None for value in column.values)],
        },
        "windows": {name: asdict(window) for name, window in windows.items()},
        "verdicts": rows,
    }


def only(window: Any, gpu: int) -> Any:
    """The window with one GPU's readings: its siblings idle beside it and would halve every mean."""
    from dataclasses import replace

    assert window is not None
    return replace(window, gpus=tuple((name, value) for name, value in window.gpus if name.startswith(f"{gpu}/")))


def device(gpu: int) -> dict[str, Any]:
    import pynvml

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(gpu)
        limit = pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
        return {
            "name": pynvml.nvmlDeviceGetName(handle),
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "power_limit_w": limit,
        }
    finally:
        pynvml.nvmlShutdown()


def table(document: dict[str, Any]) -> Iterator[str]:
    sampling = document["sampling"]
    yield f"{document['gpu']['name']}, driver {document['gpu']['driver']}, {document['gpu']['power_limit_w']:.0f} W"
    yield (
        f"{sampling['samples']} samples, one every {sampling['median_s'] * 1000:.0f} ms (99th percentile "
        f"{sampling['p99_s'] * 1000:.0f} ms); never read: {', '.join(sampling['never_read']) or 'nothing'}"
    )
    for row in document["verdicts"]:
        window = document["windows"][row["name"]]
        means = {name.partition("/")[2]: value for name, value in window["gpus"]}
        power, busy = means.get("power"), means.get("utilisation")
        used = means.get("energy")
        yield (
            f"{'ok   ' if row['as_it_should_be'] else 'WRONG'} {row['name']:<28} against {row['band']:<7} "
            f"{'-' if busy is None else f'{busy:.0f}':>4} % {'-' if power is None else f'{power:.0f}':>4} W "
            f"({'-' if used is None else format(used / window['seconds'], '.0f'):>4} W by energy) "
            f"{window['tokens_per_second'] or 0:>8.1f}/s  {row['verdict'] or 'nothing wrong'}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="a phase, after it has settled")
    parser.add_argument("--gpu", type=int, default=0, help="number of the GPU as nvidia-smi counts")
    parser.add_argument("--json", type=Path, help="file for the document")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return 0
    document = told(measure(options.gpu, options.seconds), options.gpu)
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    print("\n".join(table(document)))
    return 0 if all(row["as_it_should_be"] for row in document["verdicts"]) else 1


if __name__ == "__main__":
    sys.exit(main())
