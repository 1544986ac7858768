"""Port ranges of the tests, below the ephemeral ports: one for each pytest process of the machine.

A process holds its range by a socket that is bound to the last port of it. The programs that it
starts have the same range, by BUSBAR_TEST_PORTS.
"""

from __future__ import annotations

import os
import socket
from functools import cache

PORTS_PER_RANGE = 1000
RANGES = range(20000, 32000, PORTS_PER_RANGE)


def is_free(guard: socket.socket, first: int) -> bool:
    """Return whether `guard` holds the range from `first` on now."""
    try:
        guard.bind(("127.0.0.1", first + PORTS_PER_RANGE - 1))
    except OSError:
        return False
    return True


@cache
def reserve() -> socket.socket:
    """Take a free range until this process ends, and record its first port in the environment."""
    guard = socket.socket()
    for first in RANGES:
        if is_free(guard, first):
            os.environ["BUSBAR_TEST_PORTS"] = str(first)
            return guard
    raise RuntimeError(f"All {len(RANGES)} port ranges of the tests are in use on this machine.")


def port(offset: int) -> int:
    """Return the port at `offset` in the range of this process; 0 to 998."""
    assert 0 <= offset < PORTS_PER_RANGE - 1, offset
    if "BUSBAR_TEST_PORTS" not in os.environ:
        reserve()
    return int(os.environ["BUSBAR_TEST_PORTS"]) + offset
