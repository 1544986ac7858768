"""A process beside the program that tells which signals were sent to the whole process group.

A signal to the group reaches the program by itself and must not be passed on to it. Its siginfo is
that of a signal to `busbar run` alone, also with kill(2) by a shell, so a second member of the
group is asked. It blocks all signals: what was sent to it stays pending until it is asked.

The program's process makes it, before it executes the program. So the program is the first child of
`busbar run`, where scripts look for it, and the witness is the second one.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import select
import signal
import socket
from pathlib import Path
from types import TracebackType

from remoting.cli.signal_descriptor import signal_descriptor

PR_SET_NAME = 15
NAME = b"signal-witness"
CLONE_CALL = {"x86_64": 56, "aarch64": 220}
"""Numbers of the system call clone(2). The function of the C library needs a stack of its own."""
CLONE_PARENT = 0x8000
CLONE_PARENT_SETTID = 0x100000
HELD = 255
"""Request that drops nothing. All others are numbers of signals, which are dropped."""
ANSWER_BYTES = 1 + signal.NSIG
"""Most bytes of an answer: the request, as none may be empty like the end, and the signals."""
NO_GROUP = 2**31 - 1
"""More than any process or group is ever numbered."""


class GroupWitness:
    """The witness of this process's group, from `begin_beside_caller` to the end of the context.

    Must be created with the signals blocked.
    """

    def __init__(self) -> None:
        self._connection, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = ctypes.c_int.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))  # shared with children
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
        if not self._pid.value:
            return  # it could not be made
        with contextlib.suppress(OSError):  # no child is left where SIGCHLD is ignored
            os.kill(self._pid.value, signal.SIGKILL)  # a stopped one would not see the end
            os.waitpid(self._pid.value, 0)

    def begin_beside_caller(self) -> None:
        """Make the witness a sibling of the calling process, which becomes the program.

        Blocks all signals of the caller, as the witness inherits this. Those that were sent to the
        group since the caller was forked are pending in the caller, and the witness gets them too.
        Without a witness, as after a failure, all signals are ours alone.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with contextlib.suppress(OSError):
            _take_name()  # until exec(2): the witness has it from its first moment
            if _clone_beside(self._pid) == 0:
                _serve(self._theirs.fileno())
            for number in signal.sigpending() if self._pid.value else ():
                os.kill(self._pid.value, number)

    def has_begun(self) -> None:
        """Leave the witness's end of the connection to it, after the program has been started."""
        self._theirs.close()

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
        stopped = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        if not os.waitid(os.P_PID, self._pid.value, stopped):
            return False
        os.kill(self._pid.value, signal.SIGCONT)
        return True


def _wait_for_senders() -> None:
    """Block until signals that are being sent to a group have arrived at all of its members.

    Linux sends them under a lock that setpgid() takes as well, also when it fails. It must not
    name our group, which is 0 if its leader is outside our PID namespace: that makes a new group.
    """
    with contextlib.suppress(OSError):
        os.setpgid(0, NO_GROUP)


def _clone_beside(pid: ctypes.c_int) -> int:
    """Fork a child of our parent. Its pid is set before it runs, in memory shared with our parent.

    Return 0 in the child, and a negative number if it could not be made. Python and the C library
    are not told: in the child, the thread id that they know is still ours.
    """
    call = ctypes.c_long(CLONE_CALL.get(os.uname().machine, -1))
    flags = ctypes.c_long(CLONE_PARENT | CLONE_PARENT_SETTID | signal.SIGCHLD)
    done: int = ctypes.PyDLL(None).syscall(call, flags, None, ctypes.byref(pid), None, None)
    return done


def _serve(connection: int) -> None:
    """Answer requests until the other end is closed, which also its death does."""
    try:
        os.dup2(connection, 0)
        _close_inherited()
        while request := os.read(0, 1):
            os.write(0, request + bytes(_answer(request[0])))
    finally:
        os._exit(0)


def _answer(request: int) -> set[int]:
    if request == HELD:
        return set(signal.sigpending())
    return {request} if signal.sigtimedwait({request}, 0) is not None else set()


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
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, NAME, min(len(NAME), end - start - 1))
