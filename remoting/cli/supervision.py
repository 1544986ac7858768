"""Supervision of a program: passes signals on to it and returns its exit code.

Only signals that were sent to this process alone are passed on: those of a terminal, and others
that were sent to the process group, reach the program by themselves. Signals are blocked and stay
pending until the witness of the group has been asked, so that the kernel still drops a stop signal
when SIGCONT follows it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from remoting.cli.api import ApiError
from remoting.cli.group_witness import GroupWitness
from remoting.cli.signal_descriptor import signal_descriptor

PR_SET_PDEATHSIG = 1
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
STOPPING = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block the signals that `supervise` passes on. Threads started in the block inherit this."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def sleep(seconds: float) -> None:
    """Sleep with the signals blocked, but those that stop a job.

    Raise ApiError for a signal that asks this process to end, unless it ignores the signal: nohup.
    """
    ending = {s for s in ENDING if signal.getsignal(s) != signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    try:
        received = signal.sigtimedwait(ending, seconds)
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    if received is not None:
        name = signal.Signals(received.si_signo).name
        raise ApiError(f"Ended by {name} before the program started.", 128 + received.si_signo)


def supervise(
    command: list[str],
    env: dict[str, str],
    end_reason: Callable[[], str],
    descriptors: Sequence[int] = (),
) -> int:
    """Run the program until it exits. Return its exit code, or 128 + the signal that ended it.

    The program inherits the descriptors.

    Must be called with the signals blocked. When `end_reason` returns a text, the GPUs are gone or
    not wanted any more: the program gets SIGTERM and, after KILL_SECONDS, SIGKILL. The exit code is
    143 then, unless the program ends with an error of its own.
    """
    with GroupWitness() as witness:
        process = start_program(command, env, witness, descriptors)
        return wait_until_exit(process, end_reason, witness)


def wait_until_exit(
    process: subprocess.Popen[bytes], end_reason: Callable[[], str], witness: GroupWitness
) -> int:
    told_at: float | None = None
    arrived = signal_descriptor(FORWARDED | {signal.SIGCHLD})
    while (code := process.poll()) is None:
        idle = not select.select([arrived], [], [], POLL_SECONDS)[0]
        signal.sigtimedwait({signal.SIGCHLD}, 0)
        # A signal that the witness alone holds was sent to it alone, and is dropped. Otherwise it
        # would hide the next one that is sent to this process alone.
        numbers = witness.held() if idle else signal.sigpending()
        for number in sorted(numbers & FORWARDED):
            pass_on(process, number, witness)
        if told_at is None and end_reason():
            told_at = time.monotonic()
            process.terminate()
        elif told_at is not None and time.monotonic() > told_at + KILL_SECONDS:
            process.kill()
    os.close(arrived)
    if told_at is not None and code in (0, -signal.SIGKILL):
        return 128 + signal.SIGTERM  # also of a program that saved its work when it was told
    return code if code >= 0 else 128 - code


def start_program(
    command: list[str], env: dict[str, str], witness: GroupWitness, descriptors: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, ()) - FORWARDED - {signal.SIGCHLD}

    def prepare() -> None:
        witness.begin_beside_caller()
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        end_with_parent()

    try:
        return subprocess.Popen(command, env=env, preexec_fn=prepare, pass_fds=descriptors)
    except OSError as error:  # such as a script without its interpreter
        raise ApiError(f"Program cannot be executed: {command[0]}: {error.strerror}", 126) from None
    finally:
        witness.has_begun()


def pass_on(process: subprocess.Popen[bytes], number: int, witness: GroupWitness) -> None:
    """Take the signals with a number, also from the witness. Pass on what the program has not got.

    The witness is asked before each look at our own: a signal that is sent to the group meanwhile
    is found at the next look, and none is left in the witness, where it would hide a later one.
    Pending signals with one number are one, so a signal to us and one to the group may be as well.
    """
    received = of_group = 0
    while True:
        witnessed = witness.took(number)
        of_group += witnessed
        if witnessed and number in STOPPING:
            stop_with_group(process, number)
        elif signal.sigtimedwait({number}, 0) is not None:
            received += 1
        elif not witnessed:
            break
    if not has_our_group(process):
        of_group = 0
    elif of_group and number < signal.SIGRTMIN:
        received = 0
    for _ in range(received - of_group):
        os.kill(process.pid, number)  # not send_signal, which frees the pid of one that ended


def stop_with_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Stop like the program by the pending signal: a shell waits until this process has stopped.

    The kernel decides: nothing happens if SIGCONT has followed, or if no shell could continue us.
    Nor does it if none is pending, because only the witness was signalled.
    """
    if not has_our_group(process) and number in signal.sigpending():
        os.kill(process.pid, number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})


def has_our_group(process: subprocess.Popen[bytes]) -> bool:
    """Return False for a program that has called setsid() or setpgid(), such as a shell."""
    return os.getpgid(process.pid) == os.getpgrp()


def end_with_parent() -> None:
    """Request SIGTERM when the parent process dies: its lease on the GPUs ends as well."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
