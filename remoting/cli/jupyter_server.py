"""The Jupyter server that has started `busbar run` for a kernel."""

from __future__ import annotations

import os


class JupyterServer:
    """Finds whether the server is gone.

    A kernel ends when its parent has ended, and the parent that it sees is `busbar run`.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._is_server = os.environ.get("JPY_PARENT_PID") == str(self._parent)
        """The variable is inherited by programs that a kernel starts, too."""

    def end(self) -> str:
        """Return that the server has ended, as a sentence; empty if not or if there is none."""
        is_gone = self._is_server and os.getppid() != self._parent
        return "The Jupyter server has ended." if is_gone else ""
