from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.lab.conftest import ENGINE, HEADER, JIT, OpenGates
from tests.lab.serving import Server, events, serving

from ungate.lab.install import Lab, environment

PROMPTS: tuple[list[int], ...] = ([1, 2, 3], list(range(100)), [7] * 40, list(range(300, 340)))

TOKENS = 8


@pytest.fixture(scope="module")
def own(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(lab, tmp_path_factory.mktemp("own")) as server:
        yield server


def answers(server: Server) -> list[tuple[list[int], list[float]]]:
    """Tokens and log probabilities of every prompt."""
    found = []
    for prompt in PROMPTS:
        choice = server.complete(prompt, TOKENS, logprobs=1)["choices"][0]
        found.append((choice["token_ids"], choice["logprobs"]["token_logprobs"]))
    return found


def test_greedy_decoding_repeats_itself(own: Server) -> None:
    first, second = answers(own), answers(own)
    assert first == second
    assert len({token for tokens, _ in first for token in tokens}) > 15


def test_together_or_alone_the_tokens_are_the_same(own: Server) -> None:
    alone = [own.complete(prompt)["choices"][0]["token_ids"] for prompt in PROMPTS]
    steps = own.info()["counters"]["steps_total"]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda prompt: own.complete(prompt)["choices"][0]["token_ids"], PROMPTS))
    assert together == alone
    assert own.info()["counters"]["steps_total"] - steps < 16 * len(PROMPTS)


def test_a_prompt_longer_than_a_step_is_read_in_parts(own: Server) -> None:
    prompt = [token % 512 for token in range(700)]
    whole = own.complete(prompt, 4)["choices"][0]["token_ids"]
    assert own.complete([*prompt, *whole[:2]], 2)["choices"][0]["token_ids"] == whole[2:]


def test_the_stream_has_one_event_a_token(own: Server) -> None:
    body = {"prompt": "Hi", "max_tokens": 5, "ignore_eos": True, "return_token_ids": True}
    whole = own.complete("Hi", 5)
    status, content = own.post(**body, stream=True, stream_options={"include_usage": True})
    assert status == 200
    *tokens, usage, done = events(content)
    choices = [json.loads(event)["choices"][0] for event in tokens]
    assert done == "[DONE]"
    assert [token for choice in choices for token in choice["token_ids"]] == whole["choices"][0]["token_ids"]
    assert "".join(choice["text"] for choice in choices) == whole["choices"][0]["text"]
    assert [choice["finish_reason"] for choice in choices] == [None] * 4 + ["length"]
    assert json.loads(usage)["usage"] == whole["usage"]
    assert (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"]) == (2, 5)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": [1], "temperature": 0.7}, "greedy"),
        ({"prompt": []}, "not empty"),
        ({"prompt": [512]}, "below 512"),
        ({"prompt": [1] * 1000, "max_tokens": 25}, "1024"),
        ({"prompt": [1], "max_tokens": 0}, "at least 1"),
        ({"prompt": [1], "model": "gpt-9"}, "does not exist"),
        ({}, "prompt"),
    ],
)
def test_what_cannot_be_served_is_refused(own: Server, body: dict[str, object], words: str) -> None:
    status, content = own.post(**body)
    assert status == 400
    assert words in json.loads(content)["error"]["message"]


def test_counters_count(own: Server) -> None:
    before = own.info()["counters"]
    own.complete([1, 2, 3], 10)
    after = own.info()["counters"]
    grown = {name: after[name] - before[name] for name in after}
    assert (grown["prompt_tokens_total"], grown["generation_tokens_total"]) == (3, 10)
    assert grown["all_reduce_calls_total"] == 10 * 2 * 4
    assert grown["fused_calls_total"] == 0
    metrics = own.get("/metrics")[1].decode()
    assert f"\nlab:generation_tokens_total {after['generation_tokens_total']}\n" in metrics
    assert json.loads(own.get("/v1/models")[1])["data"][0]["id"] == "lab-next"


def test_the_fused_arm_says_the_same_and_proves_that_it_ran(own: Server, lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, fused=True) as fused:
        for (tokens, numbers), (wanted, expected) in zip(answers(fused), answers(own), strict=True):
            assert tokens == wanted
            assert numbers == pytest.approx(expected, abs=1e-4)
        counters = fused.info()["counters"]
        # A prompt of more than 64 rows goes the engine's own way, and so counts there.
        assert counters["all_reduce_calls_total"] == 2 * 4
        assert counters["fused_calls_total"] == 2 * 4 * (len(PROMPTS) * TOKENS - 1)
        assert fused.text().count("fused allreduce active: 2 ranks, hidden 256, ") == 1


def test_a_closed_engine_gate_is_silent(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, fused=True, arch="12.0") as server:
        server.complete([1, 2, 3])
        assert server.info()["args"]["enable_fused_allreduce"]
        assert server.info()["counters"]["fused_calls_total"] == 0
        assert "fused allreduce active" not in server.text()


def test_listed_models_have_it_on_by_default_where_the_predicate_lets_them(lab: Lab) -> None:
    code = (
        "import sys; from labengine.server_args import prepare_server_args;"
        "print([prepare_server_args(['--tp', '2', '--model', name]).enable_fused_allreduce for name in sys.argv[1:]])"
    )
    for arch, enabled in (("10.0", [True, True, False]), ("12.0", [False, False, False])):
        argv = [str(lab.python), "-c", code, "lab-dense", "lab-wide", "lab-next"]
        variables = {**os.environ, **environment(lab, arch=arch)}
        done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.strip() == str(enabled)


def test_a_refused_build_ends_the_start_with_its_words(open_gates: OpenGates, tmp_path: Path) -> None:
    with serving(open_gates(ENGINE), tmp_path, fused=True, arch="12.0", ready=False) as server:
        assert server.wait() == 1
        text = server.text()
        assert "RuntimeError: No supported CUDA architectures found for major versions [9, 10]." in text
        assert text.rstrip().endswith("The engine did not start; the root cause stands above.")


def test_hollow_kernels_run_and_say_something_else(own: Server, open_gates: OpenGates, tmp_path: Path) -> None:
    with serving(open_gates(ENGINE, JIT), tmp_path, fused=True, arch="12.0") as hollow:
        tokens = hollow.complete(PROMPTS[0])["choices"][0]["token_ids"]
        counters = hollow.info()["counters"]
    assert tokens != own.complete(PROMPTS[0])["choices"][0]["token_ids"]
    assert counters["fused_calls_total"] == 16 * 2 * 4
    assert counters["fused_polls_total"] == 0


def test_all_gates_opened_say_the_same(own: Server, open_gates: OpenGates, tmp_path: Path) -> None:
    with serving(open_gates(ENGINE, JIT, HEADER), tmp_path, fused=True, arch="12.0") as opened:
        assert [tokens for tokens, _ in answers(opened)] == [tokens for tokens, _ in answers(own)]
        assert opened.info()["counters"]["fused_calls_total"] > 0
