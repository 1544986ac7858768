"""Reports of sessions as the launcher sends them, for tests and loads without a data plane."""

from __future__ import annotations

import uuid

from nodes.launcher_control import SessionReport

SESSION = SessionReport(
    session_id=uuid.UUID(int=1),
    allocation_id=uuid.UUID(int=2),
    pid=77,
    state="running",
    opened_seconds=0,
    bytes_in=0,
    bytes_out=0,
    launches=0,
    memory_bytes=0,
    client_pid=1,
    isolation={},
    program="python3",
    reason="",
    client_address="127.0.0.1",
)
"""A running session without memory. Tests replace the fields that they are about."""
