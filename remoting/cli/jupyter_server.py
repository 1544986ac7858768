"""The Jupyter server that has started `busbar run` for a kernel."""

from __future__ import annotations

import os


class JupyterServer:
    """Finds whether the server is gone. To be made at the start of the process.

    A kernel ends when its parent has ended, and the parent that it sees is `busbar run`.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()
        named = os.environ.get("JPY_PARENT_PID") == str(self._parent)
        self._is_server = named and os.getsid(0) == os.getpid()
        """Programs that a kernel starts inherit the variable, also in a container, where another
        process may have the number. A kernel leads a session."""

    def end(self) -> str:
        """Return that the server has ended, as a sentence; empty if not or if there is none."""
        is_gone = self._is_server and os.getppid() != self._parent
        return "The Jupyter server has ended." if is_gone else ""
