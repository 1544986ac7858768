"""Places where a test has the process die, as if by `kill -9`.

Nothing happens unless BUSBAR_FAILPOINT names one: with NAME:N it dies the Nth time that it is reached after a SIGUSR2.
"""

from __future__ import annotations

import os
import signal
from itertools import count

NAMES = (
    "commit.before",
    "commit.after",
    "grant.taken",
    "partition.freed",
    "state.sent",
    "report.kept",
)
_name, _, _at = os.environ.get("BUSBAR_FAILPOINT", "").partition(":")
_armed = ""
_reached = count(1)


def arm(*_: object) -> None:
    global _armed
    _armed = _name


if _name:
    signal.signal(signal.SIGUSR2, arm)


def reach(name: str) -> None:
    if name == _armed and next(_reached) == int(_at or 1):
        os.kill(os.getpid(), signal.SIGKILL)
