"""Failpoints: named places where tests kill the process as if by `kill -9`.

BUSBAR_FAILPOINT=NAME or NAME:N kills the process the Nth time that it reaches NAME after a
SIGUSR2. Without the variable, failpoints do nothing.
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
    "resize.taken",
    "resize.freed",
    "suspension.recorded",
    "resumption.recorded",
)
_name, _, _at = os.environ.get("BUSBAR_FAILPOINT", "").partition(":")
_armed = ""
_hits = count(1)


def arm(*_: object) -> None:
    global _armed
    _armed = _name


if _name:
    signal.signal(signal.SIGUSR2, arm)


def failpoint(name: str) -> None:
    if name == _armed and next(_hits) == int(_at or 1):
        os.kill(os.getpid(), signal.SIGKILL)
