"""The entry point: turns every failure into one sentence and an exit code."""

from __future__ import annotations

import os
import sys

try:
    import contextlib
    import errno
    import io
    import signal
    import threading
    import traceback
    from collections.abc import Sequence
    from pathlib import Path
    from types import FrameType

    import click

    from ungate.cli.app import app
    from ungate.errors import Exit, Refusal
except KeyboardInterrupt:
    # Most of the first quarter of a second goes into these, and an interrupt then is no fault to be traced.
    print("ungate: Interrupted before it had begun.", file=sys.stderr, flush=True)
    os._exit(130)

__all__ = ["main"]

_AGAIN_S = 2.0  # after which an interrupt that did not arrive is raised again
_FULL = {errno.ENOSPC, errno.EDQUOT}
_ROOM = "Make room on that disk, then run the command again: df -h"
_PERMISSIONS = "Check the path and its permissions, then run the command again."
_INTERRUPTED = "Interrupted; what was not finished has not been kept."


def _say(words: Sequence[str], code: Exit, what: str, next_step: str = "") -> Exit:
    """Tell on stderr why the command ends with ``code``, and on stdout too where a document was asked for there."""
    print(f"ungate: {what}" + (f"\n{next_step}" if next_step else ""), file=sys.stderr)
    if "--json" in words[: words.index("--")] if "--" in words else "--json" in words:
        _say_as_document({"error": what, "next": next_step, "exit": int(code)})
    return code


def _say_as_document(told: dict[str, object]) -> None:
    from ungate.cli.output import begun, document

    if begun.is_set():
        return
    with contextlib.suppress(OSError):
        document(told)
        sys.stdout.flush()


def _begin_anew() -> None:
    if output := sys.modules.get("ungate.cli.output"):
        output.begun.clear()


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGALRM, _again)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, _AGAIN_S)
    raise KeyboardInterrupt


def _again(number: int, frame: FrameType | None) -> None:
    """Python drops what is raised in a destructor or beside a fork, an interrupt too: then it is raised once more."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return  # it arrived, and is being cleaned up after
        error = error.__context__
    raise KeyboardInterrupt


def _end_politely() -> None:
    """A terminated or hung-up ungate cleans up as one interrupted from the keyboard does."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell has it ignored
            signal.signal(signal.SIGINT, _interrupt)


def _arrived(number: int, frame: FrameType | None) -> None:
    """What a pending alarm does once the interrupt has arrived: nothing."""


def _leave_by_code() -> None:
    """Have Python leave with the exit code that is returned.

    Python remembers a KeyboardInterrupt that passed through ``exec`` of a string, as dataclasses and named tuples run
    it while modules are imported, and then ends itself with SIGINT whatever code it was left with; the next ``exec``
    clears that (``unhandled_keyboard_interrupt`` in CPython's Python/pythonrun.c and Modules/main.c).
    """
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGALRM) is _again:
        signal.signal(signal.SIGALRM, _arrived)
        signal.setitimer(signal.ITIMER_REAL, 0)
    exec("")


def _have_streams() -> None:
    """Closed standard streams (``>&-``) are None in Python; output to them goes nowhere."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be text


def _tell_unkept(code: object) -> None:
    """Warn on stderr where a result was told and the cache could not be written: the next one takes as long again."""
    keeping = sys.modules.get("ungate.host.keeping")
    if keeping and (warning := keeping.warned()) and code in (None, Exit.DONE, Exit.FINDINGS, Exit.INCONCLUSIVE):
        with contextlib.suppress(OSError):
            print(f"warning: {warning}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code (0, 1, 2, 3 or 130); a command returns an int or None."""
    _end_politely()
    _have_streams()
    _begin_anew()
    words = sys.argv[1:] if arguments is None else arguments
    code: object = Exit.ERROR
    try:
        code = app.main(arguments, prog_name="ungate", standalone_mode=False)
    except Refusal as refusal:
        return _say(words, refusal.code, refusal.what, refusal.next_step)
    except (click.Abort, KeyboardInterrupt) as interrupt:
        _leave_by_code()
        # click hands ctrl-C on as an Abort, with what was raised as its cause.
        return _say(words, Exit.INTERRUPTED, _INTERRUPTED, str(interrupt.__cause__ or interrupt))
    except click.exceptions.NoArgsIsHelpError as usage:
        click.echo(usage.ctx.get_help() if usage.ctx else "", err=True)
        return Exit.ERROR
    except click.ClickException as error:
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "ungate"
        return _say(words, Exit.ERROR, error.format_message(), f"Run: {command} --help")
    except (BrokenPipeError, SystemExit):
        # click leaves with SystemExit when whoever read the output has gone; that is no failure of the command.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except OSError as error:
        told = f"The operating system refused: {error}."
        return _say(words, Exit.ERROR, told, _ROOM if error.errno in _FULL else _PERMISSIONS)
    except Exception as error:
        # Python would leave with 1, which says findings or revert.
        traceback.print_exc()
        told = f"This is a fault of ungate itself ({f'{type(error).__name__}: {error}'.rstrip(': ')})."
        return _say(words, Exit.ERROR, told, "Report it with the lines above and: ungate doctor --json")
    finally:
        _tell_unkept(code)
        _leave_by_code()
    return code if isinstance(code, int) else Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
