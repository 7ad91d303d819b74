"""``python -m labengine.launch``: start the ranks, then serve until a signal or a failure.

Exit codes: 0 after SIGTERM or SIGINT, 1 when the start failed or a rank died, 2 for a bad command line.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from types import FrameType

from labengine import __version__, fused_comm
from labengine.board import MAX_ROWS, Board
from labengine.distributed import GroupMemory
from labengine.models import make_weights
from labengine.platform import get_device_capability, is_labkernels_available
from labengine.ranks import RankDied, Ranks, configure_logging
from labengine.scheduler import Scheduler
from labengine.server_args import ServerArgs, prepare_server_args
from labengine.worker import Inheritance

__all__ = ["main"]

logger = logging.getLogger("labengine")

FAREWELL_S = 0.5
"""How long a server whose rank died keeps answering, with 503 and error events."""


class Asked(Exception):
    """A signal asked the server to end before it was serving."""


def main(argv: list[str] | None = None) -> int:
    """Run the server and return its exit code."""
    args = prepare_server_args(sys.argv[1:] if argv is None else argv)
    configure_logging("server")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _raise_asked)
    ranks: Ranks | None = None
    try:
        listener = _bind(args)
        ranks = Ranks(_prepare(args))
        ranks.start(listener)
        return _serve(args, ranks, listener)
    except Asked as asked:
        logger.info("%s, stopped before serving", asked)
        return 0
    except OSError as error:
        logger.error("cannot listen on %s:%d: %s", args.host, args.port, error)
        return 1
    except RankDied as died:
        logger.error("%s", died)
        logger.error("The engine did not start; the root cause stands above.")
        return 1
    finally:
        if ranks:
            ranks.stop()


def _raise_asked(number: int, _: FrameType | None) -> None:
    raise Asked(signal.Signals(number).name)


def _bind(args: ServerArgs) -> socket.socket:
    # Bound before anything is forked, so that a port in use fails at once; it listens when the ranks are ready.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((args.host, args.port))
    return listener


def _prepare(args: ServerArgs) -> Inheritance:
    capability = get_device_capability()
    logger.info(
        "labengine %s, %s, %d ranks, capability %s, fused allreduce %s",
        __version__,
        args.model,
        args.tp,
        "unknown" if capability is None else ".".join(map(str, capability)),
        "enabled" if args.enable_fused_allreduce else "not enabled",
    )
    if args.enable_fused_allreduce and is_labkernels_available():
        from labengine.communicator import FUSE_ALLREDUCE_MAX_BATCH_SIZE

        fused_comm.share_memory(args.tp, FUSE_ALLREDUCE_MAX_BATCH_SIZE, args.config.hidden)
    return Inheritance(
        args=args,
        weights=make_weights(args.config, args.seed),
        board=Board(args.config, args.tp),
        group=GroupMemory.create(args.tp, MAX_ROWS, args.config.hidden),
    )


def _serve(args: ServerArgs, ranks: Ranks, listener: socket.socket) -> int:
    from labengine.serve import Frontend

    # The import above took its time while the ranks got ready.
    ranks.wait_ready()
    scheduler = Scheduler(ranks.inherited.board, args.max_num_seqs)
    frontend = Frontend(args, scheduler, ranks)

    async def until_stopped() -> int:
        from aiohttp import web

        loop = asyncio.get_running_loop()
        stop: asyncio.Future[int] = loop.create_future()

        def end(code: int) -> None:
            if not stop.done():
                stop.set_result(code)

        def child_ended() -> None:
            try:
                ranks.check()
            except RankDied as died:
                logger.error("%s, shutting down", died)
                scheduler.fail(died)
                loop.call_later(FAREWELL_S, end, 1)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end, 0)
        loop.add_signal_handler(signal.SIGCHLD, child_ended)
        child_ended()
        runner = web.AppRunner(frontend.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
        await runner.setup()
        await web.SockSite(runner, listener, backlog=1024).start()
        steps = asyncio.create_task(scheduler.run())
        steps.add_done_callback(lambda _: end(1))
        logger.info("serving on http://%s:%d", *listener.getsockname())
        code = await stop
        scheduler.fail(RuntimeError("The server is shutting down."))
        steps.cancel()
        results = await asyncio.gather(steps, return_exceptions=True)
        if isinstance(results[0], Exception):
            logger.error("the scheduler failed", exc_info=results[0])
        await runner.cleanup()
        return code

    code = asyncio.run(until_stopped())
    ranks.stop()
    logger.info("stopped with code %d", code)
    return code


if __name__ == "__main__":
    sys.exit(main())
