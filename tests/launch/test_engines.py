from __future__ import annotations

import pytest

from ungate.errors import Refusal
from ungate.launch.engines import detect, engine, names


def test_every_engine_file_is_registered_under_its_own_name() -> None:
    assert {"lab", "openai", "sglang", "vllm"} <= set(names())
    assert all(engine(name).name == name for name in names())


def test_an_unknown_engine_is_refused_with_those_there_are() -> None:
    with pytest.raises(Refusal, match=r"there are: .*sglang"):
        engine("tgi")


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["python", "-m", "sglang.launch_server", "--model-path", "m"], "sglang"),
        (["vllm", "serve", "m"], "vllm"),
        (["python", "-m", "labengine.launch"], "lab"),
        (["./my-server", "--port", "1"], "openai"),
        (["/opt/vllm/bin/python", "-m", "sglang.launch_server", "--model-path", "m"], "sglang"),
        (["vllm", "serve", "/models/sglang-tuned"], "vllm"),
        (["numactl", "-N0", "vllm", "serve", "/models/sglang-tuned"], "vllm"),
        (["bash", "-c", "exec vllm serve m"], "vllm"),
    ],
)
def test_the_engine_is_known_from_the_command_line(argv: list[str], name: str) -> None:
    assert detect(argv).name == name


@pytest.mark.parametrize(
    ("argv", "placed"),
    [
        (["s", "--port", "80", "--tp", "2"], ("s", "--port", "7", "--tp", "2")),
        (["s", "--port=80"], ("s", "--port=7")),
        (["s", "-x"], ("s", "-x", "--port", "7")),
        (["s", "--listen", "0.0.0.0:{port}"], ("s", "--listen", "0.0.0.0:7")),
    ],
)
def test_the_port_is_placed_where_the_command_line_has_it(argv: list[str], placed: tuple[str, ...]) -> None:
    assert engine("sglang").place(argv, 7) == placed


def test_an_arms_arguments_go_last() -> None:
    assert engine("lab").place(["s"], 7, ["--on"]) == ("s", "--port", "7", "--on")


def test_the_served_name_wins_over_the_path() -> None:
    sglang, vllm = engine("sglang"), engine("vllm")
    assert sglang.model(["--model-path", "/m/glm", "--served-model-name", "glm"]) == "glm"
    assert sglang.model(["--model-path=/m/glm"]) == "/m/glm"
    assert vllm.model(["vllm", "serve", "/m/tiny", "--port", "1"]) == "/m/tiny"
    assert vllm.model(["vllm"]) == ""


def test_phases_are_read_from_log_lines() -> None:
    assert engine("sglang").phase("[TP0] Load weight begin. avail mem=90 GB") == "load"
    assert engine("sglang").phase("nothing of interest") == ""
