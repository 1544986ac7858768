"""Port ranges of the tests, below the ephemeral ports; each pytest-xdist worker has its own.

BUSBAR_TEST_PORTS is the first port of a second run beside another one.
"""

from __future__ import annotations

import os

FIRST_PORT = int(os.environ.get("BUSBAR_TEST_PORTS", "20000"))
PORTS_PER_WORKER = 1000
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def port(offset: int) -> int:
    """Return the port at `offset` in the range of this worker; 0 to 999."""
    assert 0 <= offset < PORTS_PER_WORKER, offset
    return FIRST_PORT + WORKER * PORTS_PER_WORKER + offset
