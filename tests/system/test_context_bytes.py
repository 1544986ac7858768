"""The memory of a CUDA context, from the measurement on a node to the requests of users."""

from __future__ import annotations

from pathlib import Path

import pytest

from remoting.cli.api import ApiError
from tests.ports import port
from tests.system.conftest import started

pytestmark = pytest.mark.system

MIB = 1 << 20
CONTEXT = 12 * MIB


def test_measured_context_bounds_the_requests_and_sessions_of_a_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBAR_SOFTGPU_CONTEXT_BYTES", str(CONTEXT))
    with started(tmp_path, port(440), {"node": 1}) as pool:
        pool.wait(
            "the measured context",
            lambda: [g["context_bytes"] for g in pool.api.items("gpus")] == [CONTEXT],
        )
        with pytest.raises(ApiError, match="12 MiB for a CUDA context"):
            pool.api.request("POST", "allocations", {"memory_bytes": CONTEXT})
        fitting = pool.api.request("POST", "allocations", {"memory_bytes": 3 * CONTEXT})
        assert fitting["max_sessions"] == 3
