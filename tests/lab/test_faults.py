from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ungate.lab

ENGINE = Path(ungate.lab.__file__).parent / "engine"

READ = """
import json, os, sys
from labengine.faults import Fault
told = []
for text in json.loads(sys.argv[1]):
    os.environ["LAB_FAULT"] = text
    try:
        told.append([Fault(0, 2).kind, Fault(1, 2).kind, Fault(1, 2).amount])
    except ValueError as error:
        told.append(str(error))
print(json.dumps(told))
"""


def read(*texts: str) -> list[object]:
    variables = {**os.environ, "PYTHONPATH": str(ENGINE)}
    argv = [sys.executable, "-c", READ, json.dumps(texts)]
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=60, check=True)
    told: list[object] = json.loads(done.stdout)
    return told


def test_a_fault_befalls_the_last_rank() -> None:
    assert read("", "hang-at-start", "slow-start:1.5", "slow-steps:0.2", "die-after:20", "slow-steps:6@4") == [
        ["", "", 0],
        ["", "hang-at-start", 0],
        ["", "slow-start", 1.5],
        ["", "slow-steps", 0.2],
        ["", "die-after", 20],
        ["", "slow-steps", 6],
    ]


def test_a_misspelt_fault_is_an_error() -> None:
    texts = (
        "nonsense",
        "die-after",
        "die-after:x",
        "hang-after:-1",
        "slow-start:",
        "DIE-AT-START",
        "slow-steps:1@",
        "hang-at-start@2@3",
    )
    for text, told in zip(texts, read(*texts), strict=True):
        assert told == f"LAB_FAULT={text!r} is not a fault; labengine/faults.py lists them."
