"""How a command ends: one exit code for each kind of end, one sentence, and no traceback for what is nobody's bug.

| code | what happened |
|---|---|
| 0 | done |
| 1 | a policy failed |
| 2 | a mistake in what was asked for |
| 3 | an attack beats what is guaranteed or claimed |
| 4 | out of memory |
| 5 | a disk that is full, refuses or cannot be read |
| 6 | a cluster that cannot be reached, has nobody in it, or was lost |
| 7 | damaged files |
| 8 | models could not be trained |
| 70 | something that nobody foresaw: a bug of ours, with a traceback |
| 129, 130, 143 | stopped by SIGHUP, Ctrl-C or a “no”, SIGTERM: finished chunks of a store are kept |
| 141 | whoever read the output has gone |
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import Any, NoReturn, TextIO

from seedscope.commands.terminal import log, logs, say
from seedscope.core import (
    ClusterError,
    DamageError,
    DiskError,
    OutOfMemoryError,
    SeedscopeError,
    TrainingError,
)

MISTAKE, FAILED, OUT_OF_MEMORY, UNFORESEEN, NO_READER = 2, 8, 4, 70, 141
CODES: dict[type[SeedscopeError], int] = {
    TrainingError: FAILED,
    OutOfMemoryError: OUT_OF_MEMORY,
    DiskError: 5,
    ClusterError: 6,
    DamageError: 7,
}
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_received: list[int] = []


def exit_code(error: SeedscopeError) -> int:
    """Return the exit code of an error.

    >>> exit_code(SeedscopeError("delta must be in (0, 1), got 2.")), exit_code(DiskError("no space left"))
    (2, 5)
    """
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), MISTAKE)


def stopped_code() -> int:
    """Return the exit code of a command that was stopped: by the first signal, else by Ctrl-C."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def listen_for_signals() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, and a second signal end it at once and quietly."""
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # nohup's wish
            signal.signal(number, _receive)


def _receive(number: int, _: Any) -> None:
    """Stop at the next instruction; who asks twice does not want to wait for tidying up: the store needs none."""
    if _received:
        os._exit(128 + number)
    _received.append(number)
    raise KeyboardInterrupt


def end(code: int, sentence: str = "") -> NoReturn:
    """End with a code, after one sentence to the person."""
    if logs():
        log("end", exit_code=code, message=sentence)
    elif sentence:
        say(f"seedscope: {sentence}", err=True)
    sys.exit(code)


def broken_pipe() -> int:
    """Return the exit code of a broken pipe, after what is left to print was sent nowhere if it is the output's."""
    for stream in (sys.stdout, sys.stderr):
        if _reader_has_gone(stream):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            return NO_READER
    return FAILED


def _reader_has_gone(stream: TextIO) -> bool:
    """Whether nobody reads a stream any more; an unbuffered one has nothing left whose writing would fail."""
    try:
        stream.flush()
        place = stream.fileno()
    except BrokenPipeError:
        return True
    except (OSError, ValueError):  # no file of the system's
        return False
    looked = select.poll()
    looked.register(place, select.POLLOUT)
    return any(event & select.POLLERR for _, event in looked.poll(0))
