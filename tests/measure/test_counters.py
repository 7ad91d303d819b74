from __future__ import annotations

from ungate.measure.counters import parse, read, total

TEXT = """\
# HELP lab:steps_total Steps.
# TYPE lab:steps_total counter
lab:steps_total 41
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 16.0
vllm:prefix_cache_hits_total{engine="1",model_name="tiny"} 4.0
vllm:gauge -1.5e-3
not a sample
"""


def test_labels_are_summed_and_comments_left_out() -> None:
    assert parse(TEXT) == {"lab:steps_total": 41.0, "vllm:prefix_cache_hits_total": 20.0, "vllm:gauge": -0.0015}


def test_what_a_server_does_not_have_is_none() -> None:
    counters = parse(TEXT)
    assert total(counters, ("lab:steps_total", "absent")) == 41.0
    assert total(counters, ("absent",)) is None
    assert total(None, ("lab:steps_total",)) is None


def test_an_endpoint_that_is_missing_reads_as_none(fake: str) -> None:
    assert read(fake, "/metrics") is None
    assert read("http://127.0.0.1:1") is None
