"""A machine with two agents: its GPU belongs to the first node until that is removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ports import port
from tests.system.conftest import Pool, started

pytestmark = pytest.mark.system


def gpu_of(pool: Pool, node: str) -> dict[str, Any]:
    (gpu,) = pool.api.items("gpus", node=node)
    return gpu


def test_gpu_of_a_second_agent_is_held_until_the_first_node_is_removed(tmp_path: Path) -> None:
    with started(tmp_path, port(500), {"first": 1, "other": 1}) as pool:
        first = next(n for n in pool.stack.nodes if n.folder.name == "first")
        names = [n["name"] for n in pool.api.items("nodes")]
        uuids = {gpu_of(pool, name)["uuid"] for name in names}
        assert len(uuids) == 2, "software GPUs of different folders are different GPUs"
        twin = pool.stack.add_node("twin", 1)
        folder = first.service.environment({})["BUSBAR_SOFTGPU_DIR"]
        for part in twin.parts:
            part.environment["BUSBAR_SOFTGPU_DIR"] = folder
        pool.start_node(twin)
        pool.wait("the twin", lambda: len(pool.api.items("gpus")) == 3)
        held = next(g for g in pool.api.items("gpus") if g["duplicate_of"])
        owner = next(n for n in pool.api.items("nodes") if n["name"] == held["duplicate_of_node"])
        assert gpu_of(pool, owner["name"])["uuid"] == held["uuid"]
        pool.api.request("DELETE", f"nodes/{owner['id']}")
        pool.wait(
            "the release of the GPU",
            lambda: pool.api.request("GET", f"gpus/{held['id']}")["duplicate_of"] is None,
        )
