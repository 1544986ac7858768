"""Supervision of a program: passes signals on to it and returns its exit code.

Signals are blocked and fetched with `sigtimedwait`, because its result tells a signal of the
terminal, which the program receives as well, from one that another process sent to us alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from remoting.cli.api import ApiError

PR_SET_PDEATHSIG = 1
SI_KERNEL = 0x80
"""`si_code` of a signal that the kernel sent, for example for Ctrl-C (sigaction(2))."""
POLL_SECONDS = 0.5
KILL_SECONDS = 10.0
"""Time from SIGTERM to SIGKILL after the end of the allocation."""
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS}
"""Signals of our own faults; they are never blocked."""
FORWARDED = (
    set(signal.valid_signals())
    - FAULTS
    - {
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGCHLD,
        signal.SIGPIPE,
        signal.SIGTRAP,
        signal.SIGABRT,
    }
)
ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block the signals that `supervise` passes on. Threads started in the block inherit this."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def sleep(seconds: float) -> None:
    """Sleep with the signals blocked. Raise ApiError for a signal that asks this process to end."""
    received = signal.sigtimedwait(ENDING | {signal.SIGTSTP}, seconds)
    if received is not None and received.si_signo == signal.SIGTSTP:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif received is not None:
        name = signal.Signals(received.si_signo).name
        raise ApiError(f"Ended by {name} before the program started.", 128 + received.si_signo)


def supervise(command: list[str], env: dict[str, str], end_reason: Callable[[], str]) -> int:
    """Run the program until it exits. Return its exit code, or 128 + the signal that ended it.

    Must be called with the signals blocked. When `end_reason` returns a text, the GPUs are gone:
    the program gets SIGTERM and, after KILL_SECONDS, SIGKILL. The exit code is 143 then, unless the
    program ends with an error of its own.
    """
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, ()) - FORWARDED - {signal.SIGCHLD}

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        end_with_parent()

    try:
        process = subprocess.Popen(command, env=env, preexec_fn=prepare)
    except OSError as error:  # such as a script without its interpreter
        raise ApiError(f"Program cannot be executed: {command[0]}: {error.strerror}", 126) from None
    told_at: float | None = None
    while (code := process.poll()) is None:
        received = signal.sigtimedwait(FORWARDED | {signal.SIGCHLD}, POLL_SECONDS)
        if received is not None:
            pass_on(process, received)
        if told_at is None and end_reason():
            told_at = time.monotonic()
            process.terminate()
        elif told_at is not None and time.monotonic() > told_at + KILL_SECONDS:
            process.kill()
    if told_at is not None and code in (0, -signal.SIGKILL):
        return 128 + signal.SIGTERM  # also of a program that saved its work when it was told
    return code if code >= 0 else 128 - code


def pass_on(process: subprocess.Popen[bytes], received: signal.struct_siginfo) -> None:
    """Pass a signal on, unless the terminal sent it to the program as well."""
    from_terminal = received.si_code == SI_KERNEL
    if received.si_signo != signal.SIGCHLD and not from_terminal:
        process.send_signal(received.si_signo)
    if received.si_signo == signal.SIGTSTP and from_terminal:
        os.kill(os.getpid(), signal.SIGSTOP)  # the shell waits until this process stops


def end_with_parent() -> None:
    """Request SIGTERM when the parent process dies: its lease on the GPUs ends as well."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
