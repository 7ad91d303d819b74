"""push, pop, refresh and recover over installed packages: all or nothing, and the user's edit wins."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.patch.faults import Counting, Failing, Intruding
from tests.patch.site import again, gate, install, story

from ungate.errors import Refusal
from ungate.host.packages import Package, below, deviations
from ungate.model import Form, Series, Target
from ungate.patch import open_series
from ungate.patch.announce import FILES
from ungate.patch.disk import Owner
from ungate.patch.stack import applied, pop, pristine, push, recover_all, refresh, standing
from ungate.patch.state import journal_of, locked


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "venv/lib/python3.11/site-packages"


def _files(site: Path) -> dict[str, str]:
    return {
        str(path.relative_to(site)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


def _first(site: Path) -> tuple[Series, tuple[Package, ...]]:
    packages, gates = story(site)
    return open_series("first", gates, Target(120), packages), packages


def test_push_and_pop_leave_every_byte_as_it_was(site: Path) -> None:
    series, packages = _first(site)
    before = _files(site)
    pushed = push(series, packages)
    assert pushed.done and set(pushed.files) == set(series.after)
    after = _files(site)
    assert {f: after[f] for f in series.after} == dict(series.after)
    assert set(after) - set(before) == set(FILES[:2])
    popped = pop(site, packages)
    assert popped and (popped.name, popped.digest, popped.riders) == ("first", series.digest, (121,))
    assert popped.packages == {"engine": "2.0", "kernels": "1.0"}
    assert _files(site) == before
    assert all(deviations(package) == () for package in packages)
    assert pop(site, packages) is None


def test_a_second_push_does_nothing_and_says_so(site: Path) -> None:
    series, packages = _first(site)
    push(series, packages)
    once = _files(site)
    again_ = push(series, packages)
    assert not again_.done and again_.note == "it is pushed already"
    assert _files(site) == once and len(applied(site)) == 1


def test_what_upstream_did_already_is_recognised(site: Path) -> None:
    series, packages = _first(site)
    from ungate.patch.content import changed

    for path, _, after in list(changed(series, packages).values()):
        path.write_bytes(after)
    done = push(series, packages)
    assert not done.done and "already" in done.note
    assert applied(site) == ()


def test_series_stack_and_only_the_top_pops(site: Path) -> None:
    series, packages = _first(site)
    clean = _files(site)
    push(series, packages)
    one = _files(site)
    second = open_series("second", again(packages), Target(110), packages)
    push(second, packages)
    assert [each.name for each in applied(site)] == ["first", "second"]
    assert "second" in (site / FILES[1]).read_text() and "first" in (site / FILES[1]).read_text()
    assert [s.state for s in standing(site, packages)] == ["applied", "applied"]
    assert (top := pop(site, packages)) and top.name == "second"
    assert _files(site) == one
    assert (top := pop(site, packages)) and top.name == "first"
    assert _files(site) == clean


def test_a_file_that_the_user_changed_is_never_touched(site: Path) -> None:
    series, packages = _first(site)
    file = site / "kernels/jit.py"
    file.write_text(file.read_text() + "# mine\n")
    mine = _files(site)
    with pytest.raises(Refusal, match=r"kernels/jit\.py is not the file"):
        push(series, packages)
    assert _files(site) == mine
    file.write_text(file.read_text().removesuffix("# mine\n"))
    push(series, packages)
    file.write_text(file.read_text() + "# mine\n")
    mine = _files(site)
    assert standing(site, packages)[0].disturbed == ("kernels/jit.py",)
    with pytest.raises(Refusal, match="your change wins"):
        pop(site, packages)
    assert _files(site) == mine


def test_refresh_takes_the_users_edit_into_the_series(site: Path) -> None:
    series, packages = _first(site)
    clean = _files(site)
    push(series, packages)
    file = site / "kernels/jit.py"
    file.write_text(file.read_text() + "# mine\n")
    mine = _files(site)
    new, moved = refresh(site, packages)
    assert moved == ("kernels/jit.py",) and new.digest != series.digest
    assert _files(site) == mine
    assert refresh(site, packages)[1] == ()
    pop(site, packages)
    assert _files(site) == clean


def test_mode_owner_and_links_are_kept_and_time_moves(site: Path) -> None:
    series, packages = _first(site)
    file = site / "kernels/jit.py"
    file.chmod(0o640)
    os.utime(file, (1, 1))
    inode = file.stat().st_ino
    owner = Owner.of(file)
    push(series, packages)
    assert Owner.of(file) == owner and file.stat().st_mtime > 1e9 and file.stat().st_ino != inode
    pop(site, packages)
    assert Owner.of(file) == owner and file.stat().st_mtime > 1e9


def test_stale_byte_code_goes(site: Path) -> None:
    series, packages = _first(site)
    import py_compile

    cached = py_compile.compile(
        str(site / "kernels/jit.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH, doraise=True
    )
    assert cached
    code = "import kernels.jit; print(kernels.jit.module())"
    run = [sys.executable, "-S", "-c", code]
    environment = {"PYTHONPATH": str(site)}
    assert subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout == "[9, 10]\n"
    push(series, packages)
    assert not Path(cached).exists()
    assert subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout == "[9, 10, 12]\n"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
def test_an_error_at_any_step_leaves_everything_as_it_was(site: Path, error: int) -> None:
    series, packages = _first(site)
    clean = _files(site)
    disk = Counting()
    push(series, packages, disk=disk)
    pushed = _files(site)
    pop(site, packages)
    refused = 0
    for number in range(1, disk.steps + 1, 1 if error == errno.ENOSPC else 3):
        try:
            push(series, packages, disk=Failing(number, error, lasting=error == errno.ENOSPC))
        except (Refusal, OSError) as problem:
            refused += 1
            if journal_of(site).pending():
                assert "ungate patch recover" in str(problem)
                recover_all(site)
            assert _files(site) == clean, number
            assert applied(site) == ()
        else:
            # only the tidying after the point of no return may fail silently
            recover_all(site)
            assert _files(site) == pushed, number
            pop(site, packages)
            assert _files(site) == clean
    assert refused >= 5


@pytest.mark.parametrize("text", [b"theirs\n", None])
@pytest.mark.parametrize("at", [1, 3])
def test_who_writes_in_the_instant_before_the_exchange_wins(site: Path, at: int, text: bytes | None) -> None:
    series, packages = _first(site)
    before = _files(site)
    disk = Intruding(at, text)
    with pytest.raises(Refusal, match="is missing" if text is None else "was changed by someone else"):
        push(series, packages, disk=disk)
    assert disk.met is not None
    after, met = _files(site), str(disk.met.relative_to(site))
    assert after.pop(met, None) == (hashlib.sha256(text).hexdigest() if text else None)
    assert after == {name: digest for name, digest in before.items() if name != met}
    assert applied(site) == ()


def test_who_writes_while_files_are_put_back_wins(site: Path) -> None:
    series, packages = _first(site)
    before = _files(site)
    # the third exchange meets somebody else, so the first two are undone: the second undoing meets one again

    class Twice(Intruding):
        def exchange(self, source: Path, place: Path) -> None:
            if self.exchanges == 5:
                place.write_bytes(b"again\n")
                self.second = place
            super().exchange(source, place)

    disk = Twice(3, b"theirs\n")
    with pytest.raises(Refusal):
        push(series, packages, disk=disk)
    after = _files(site)
    assert disk.met is not None and disk.met.read_bytes() == b"theirs\n" and disk.second.read_bytes() == b"again\n"
    mine = {str(path.relative_to(site)) for path in (disk.met, disk.second)}
    assert {k: v for k, v in after.items() if k not in mine} == {k: v for k, v in before.items() if k not in mine}


def test_where_files_cannot_be_exchanged_in_one_step(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ungate.patch import disk

    monkeypatch.setattr(disk, "_swapped", lambda one, other: False)
    series, packages = _first(site)
    before = _files(site)
    assert push(series, packages).done
    pop(site, packages)
    assert _files(site) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_named(site: Path) -> None:
    series, packages = _first(site)
    (site / "kernels").chmod(0o555)
    with pytest.raises(Refusal, match="Permission denied"):
        push(series, packages)
    (site / "kernels").chmod(0o755)


def _mount(folder: Path, *options: str) -> None:
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting needs root with CAP_SYS_ADMIN: {done.stderr.strip()}")


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A real file system with 64 KB of room."""
    folder = tmp_path / "small"
    folder.mkdir()
    _mount(folder, "-t", "tmpfs", "-o", "size=128k", "tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_nothing_has_changed(full: Path) -> None:
    site = full / "venv/lib/python3.11/site-packages"
    series, packages = _first(site)
    clean = _files(site)
    filler = full / "filler"
    with pytest.raises(OSError), filler.open("wb", buffering=0) as stream:
        while True:
            stream.write(b"x" * 4096)
    with pytest.raises(Refusal, match="No space left on device"):
        push(series, packages)
    assert _files(site) == clean and journal_of(site).pending() is None
    filler.unlink()
    assert push(series, packages).done
    pop(site, packages)
    assert _files(site) == clean


def test_a_read_only_mount_is_named(full: Path) -> None:
    site = full / "venv/lib/python3.11/site-packages"
    series, packages = _first(site)
    clean = _files(site)
    subprocess.run(["mount", "-o", "remount,ro", str(full)], check=True)
    with pytest.raises(Refusal, match="Read-only file system"):
        push(series, packages)
    assert _files(site) == clean and journal_of(site).pending() is None


def test_links_and_ways_out_are_refused(site: Path, tmp_path: Path) -> None:
    series, packages = _first(site)
    victim = tmp_path / "victim.py"
    file = site / "kernels/jit.py"
    content = file.read_bytes()
    victim.write_bytes(content)
    file.unlink()
    file.symlink_to(victim)
    with pytest.raises(Refusal, match="is a link to"):
        push(series, packages)
    file.unlink()
    os.link(victim, file)
    with pytest.raises(Refusal, match="2 names"):
        push(series, packages)
    assert victim.read_bytes() == content
    (site / "kernels-1.0.dist-info/INSTALLER").write_text("uv\n")
    linked = tuple(below(site))
    push(series, linked)
    assert victim.read_bytes() == content and file.read_bytes() != content
    pop(site, linked)
    before = _files(tmp_path)
    name = "../site-packages/kernels/jit.py"
    for way in (name, str(site / "kernels/jit.py"), "kernels/../../outside.py"):
        edits = tuple(replace(e, file=way) for e in series.edits if e.file == "kernels/jit.py")
        hashes = [{way: side["kernels/jit.py"]} for side in (series.before, series.after)]
        with pytest.raises(Refusal):
            push(replace(series, edits=edits, before=hashes[0], after=hashes[1], digest="x"), linked)
    assert _files(tmp_path) == before


def test_an_editable_installation_says_use_git(site: Path, tmp_path: Path) -> None:
    series, packages = _first(site)
    editable = tuple(replace(package, editable=True) for package in packages)
    with pytest.raises(Refusal, match="editable") as refusal:
        push(series, editable)
    assert "git" in refusal.value.next_step


def test_a_new_installation_makes_the_series_gone_and_push_finds_the_gates_again(site: Path) -> None:
    series, packages = _first(site)
    push(series, packages)
    library = {
        "kernels/__init__.py": b"",
        "kernels/jit.py": b"# new\n\n\nX = [9, 10]\n",
        "kernels/include/fused.cuh": b"\n",
    }
    for info in site.glob("kernels-*.dist-info"):
        subprocess.run(["rm", "-r", str(info)], check=True)
    install(site, "kernels", "1.1", library)
    packages = below(site)
    assert [s.state for s in standing(site, packages)] == ["partly gone"]
    assert (top := pop(site, packages)) and top.name == "first"
    assert (site / "kernels/jit.py").read_bytes() == library["kernels/jit.py"]
    assert all(deviations(p) == () for p in packages if p.name == "engine")
    new = next(p for p in packages if p.name == "kernels")
    found = open_series(
        "first", (gate(new, "kernels/jit.py", "[9, 10]", (90, 100), Form.INT_LIST),), Target(120), packages
    )
    push(found, packages)
    install(site, "kernels", "1.2", library)
    packages = below(site)
    assert [s.state for s in standing(site, packages)] == ["gone"]
    done = push(
        open_series(
            "other", (gate(new, "kernels/jit.py", "[9, 10]", (90, 100), Form.INT_LIST),), Target(120), packages
        ),
        packages,
    )
    assert done.dropped == ("first",) and [each.name for each in applied(site)] == ["other"]


def test_another_users_push_is_recognised(site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    series, packages = _first(site)
    push(series, packages)
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "other"))
    second = open_series("second", again(packages), Target(110), packages)
    with pytest.raises(Refusal, match="does not know"):
        push(second, packages)


_PUSHER = """
import sys, json
from pathlib import Path
from tests.patch.site import story
from ungate.host.packages import below
from ungate.model import Target
from ungate.patch.stack import push
import pickle
series = pickle.loads(Path(sys.argv[2]).read_bytes())
print(json.dumps(push(series, below(Path(sys.argv[1]))).done))
"""


def test_two_pushes_at_once_become_one_after_the_other(site: Path, tmp_path: Path) -> None:
    import pickle

    series, _ = _first(site)
    (tmp_path / "series").write_bytes(pickle.dumps(series))
    run = [sys.executable, "-c", _PUSHER, str(site), str(tmp_path / "series")]
    both = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) for _ in range(2)]
    said = sorted(json.loads(one.communicate(timeout=120)[0]) for one in both)
    assert said == [False, True]
    assert len(applied(site)) == 1


def test_waiting_for_another_push_has_a_deadline(site: Path) -> None:
    series, packages = _first(site)
    with locked(journal_of(site)):
        started = time.monotonic()
        with pytest.raises(Refusal, match="has been changing these packages"):
            push(series, packages, deadline_s=0.3)
        assert time.monotonic() - started < 5


def test_a_push_that_was_cut_short_must_be_recovered_first(site: Path) -> None:
    series, packages = _first(site)
    journal = journal_of(site)
    journal.begin("push of 'lost'", site, (), {"series": []})
    for operation in (lambda: push(series, packages), lambda: pop(site, packages), lambda: refresh(site, packages)):
        with pytest.raises(Refusal, match="cut short"):
            operation()
    assert recover_all(site).direction == "back"
    assert recover_all(site).direction == "nothing"
    assert push(series, packages).done


def test_recover_names_what_someone_else_changed_meanwhile(site: Path) -> None:
    series, packages = _first(site)
    clean = _files(site)

    class Interrupted(Counting):
        def reached(self, part: str) -> None:
            if part == "after" and (site / "kernels/jit.py").read_bytes() != original:
                (site / "kernels/jit.py").write_text("# pip was here\n")
                raise OSError(errno.EIO, "gone")

    original = (site / "kernels/jit.py").read_bytes()
    with pytest.raises(Refusal):
        push(series, packages, disk=Interrupted())
    outcome = recover_all(site)
    assert outcome.direction in ("back", "nothing")
    now = _files(site)
    assert (site / "kernels/jit.py").read_text() == "# pip was here\n"
    assert {f: now[f] for f in clean if f != "kernels/jit.py"} == {f: clean[f] for f in clean if f != "kernels/jit.py"}


def test_status_says_which_series_changed_what(site: Path) -> None:
    series, packages = _first(site)
    assert pristine(packages, site) == {"engine": (), "kernels": ()}
    push(series, packages)
    (site / "kernels/predicates.py").write_text("# mine\n")
    found = pristine(packages, site)
    assert found["engine"] == (("engine/fuse.py", "changed by the series 'first'"),)
    assert dict(found["kernels"])["kernels/predicates.py"].startswith("changed")
    assert dict(found["kernels"])["kernels/jit.py"] == "changed by the series 'first'"


def test_a_damaged_journal_is_no_reason_to_write_something_else(site: Path) -> None:
    series, packages = _first(site)
    push(series, packages)
    pushed = _files(site)
    for blob in (journal_of(site).folder / "blobs").iterdir():
        blob.write_bytes(b"damaged")
    with pytest.raises(Refusal, match="lost the content"):
        pop(site, packages)
    assert _files(site) == pushed
