"""A process beside the program that tells which signals were sent to the whole process group.

A signal to the group reaches the program by itself and must not be passed on to it. Its siginfo is
that of a signal to `busbar run` alone, also with kill(2) by a shell, so a second member of the
group is asked. It blocks all signals: what was sent to it stays pending until it is asked.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
from pathlib import Path
from types import TracebackType

from remoting.cli.signal_descriptor import signal_descriptor

PR_SET_NAME = 15
NAME = b"signal-witness"
FORGET = 0
"""Request that drops what was sent before."""
HELD = 255
"""Request that drops nothing. All others are numbers of signals, which are dropped."""
ANSWER_BYTES = 1 + signal.NSIG
"""Most bytes of an answer: the request, as none may be empty like the end, and the signals."""
NO_GROUP = 2**31 - 1
"""More than any process or group is ever numbered."""


class GroupWitness:
    """The witness of this process's group, from creation to the end of the context.

    Must be created with the signals blocked and without other threads, because it forks.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            _serve(theirs.fileno())
        theirs.close()
        self._connection = ours
        self._children = signal_descriptor({signal.SIGCHLD})

    def __enter__(self) -> GroupWitness:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()
        os.close(self._children)
        with contextlib.suppress(OSError):  # no child is left where SIGCHLD is ignored
            os.kill(self.pid, signal.SIGKILL)  # it may be stopped, and would not see the end then
            os.waitpid(self.pid, 0)

    def took(self, number: int) -> bool:
        """Return whether the group got a signal since this was last asked, and forget it.

        A signal of the group that this process or the witness has got has arrived at both then.
        """
        _wait_for_senders()
        answer = self._ask_living(number)
        _wait_for_senders()
        return number in answer

    def held(self) -> set[int]:
        """Return the signals that the witness has got and was not asked about."""
        _wait_for_senders()  # else a SIGCONT that continued us could look like ours in the witness
        return self._ask_living(HELD)

    def begin_with_caller(self) -> None:
        """Forget the signals that were sent before the calling process, the program, was forked.

        The caller must have the signals blocked: those that are pending in it are kept.
        """
        _wait_for_senders()
        with contextlib.suppress(OSError):  # the witness has been killed
            self._connection.send(bytes([FORGET]))
            self._connection.recv(ANSWER_BYTES)
            for number in signal.sigpending():
                os.kill(self.pid, number)

    def _ask_living(self, request: int) -> set[int]:
        """Return no signals if the witness has been killed: all are ours alone then."""
        try:
            return self._ask(request)
        except OSError:
            return set()

    def _ask(self, request: int) -> set[int]:
        """Ask a witness that may stop meanwhile. Takes SIGCHLD."""
        self._connection.send(bytes([request]))
        connection, continued = self._connection.fileno(), False
        while True:
            signal.sigtimedwait({signal.SIGCHLD}, 0)
            continued = self._continue_if_stopped() or continued
            if connection in select.select([connection, self._children], [], [])[0]:
                break
        answer = set(self._connection.recv(ANSWER_BYTES)[1:])
        if continued and request != signal.SIGCONT:
            self._ask(signal.SIGCONT)  # ours must not look like one to the group
        return answer - {signal.SIGCONT} if continued else answer

    def _continue_if_stopped(self) -> bool:
        """Continue a witness that SIGSTOP has stopped with the group: we were continued alone."""
        if not os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT):
            return False
        os.kill(self.pid, signal.SIGCONT)
        return True


def _wait_for_senders() -> None:
    """Block until signals that are being sent to a group have arrived at all of its members.

    Linux sends them under a lock that setpgid() takes as well, also when it fails. It must not
    name our group, which is 0 if its leader is outside our PID namespace: that makes a new group.
    """
    with contextlib.suppress(OSError):
        os.setpgid(0, NO_GROUP)


def _serve(connection: int) -> None:
    """Answer requests until the other end is closed, which also its death does."""
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        os.dup2(connection, 0)
        _close_inherited()
        _take_name()
        while request := os.read(0, 1):
            os.write(0, request + bytes(_answer(request[0])))
    finally:
        os._exit(0)


def _answer(request: int) -> set[int]:
    pending: set[int] = set(signal.sigpending())
    if request == HELD:
        return pending
    asked = pending if request == FORGET else {request}
    return {number for number in asked if signal.sigtimedwait({number}, 0) is not None}


def _close_inherited() -> None:
    """Close all but the connection, such as pipes whose readers wait for the program's end."""
    for name in os.listdir("/proc/self/fd"):
        if name != "0":
            with contextlib.suppress(OSError):  # the one that has read the folder
                os.close(int(name))


def _take_name() -> None:
    """Replace name and arguments: `pkill -f "busbar run"` must not count as a signal to the group.

    See proc(5): the fields 48 and 49 of stat are the addresses of the arguments.
    """
    ctypes.CDLL(None).prctl(PR_SET_NAME, NAME)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, NAME, min(len(NAME), end - start - 1))
