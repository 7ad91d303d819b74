from __future__ import annotations

from pathlib import Path

from ungate.launch.engines import engine
from ungate.launch.profiler import Profiler


def test_the_folder_is_put_in_its_place() -> None:
    profiler = Profiler(body={"output_dir": "{folder}", "with_stack": False}, arguments=("--dir={folder}",))
    assert profiler.payload(Path("/t")) == {"output_dir": "/t", "with_stack": False}
    assert profiler.prepared(Path("/t"), ()) == (("--dir=/t",), {})


def test_a_release_that_does_not_know_the_arguments_is_told_through_the_environment(tmp_path: Path) -> None:
    """With an unknown argument the server would not start, and the candidate would be blamed for it."""
    profiler = engine("vllm").profiler
    assert profiler is not None
    old, new = tmp_path / "old", tmp_path / "new"
    (new / "vllm" / "config").mkdir(parents=True)
    old.mkdir()
    (new / "vllm" / "config" / "profiler.py").touch()
    arguments, environment = profiler.prepared(tmp_path / "trace", [old])
    assert arguments == () and environment["VLLM_TORCH_PROFILER_DIR"] == str(tmp_path / "trace")
    arguments, _ = profiler.prepared(tmp_path / "trace", [old, new])
    assert f"--profiler-config.torch_profiler_dir={tmp_path / 'trace'}" in arguments
