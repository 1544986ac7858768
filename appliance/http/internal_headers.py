"""Headers between the controller and the HTTP server process. No client sees or sets them."""

from __future__ import annotations

SEQUENCE_HEADER, WAIT_HEADER = b"busbar-sequence", b"busbar-wait"
EXECUTION_HEADER = b"busbar-execution"
"""Of requests: how the controller handles it (http/request.py)."""
INTERNAL_HEADERS = frozenset({SEQUENCE_HEADER, WAIT_HEADER})
