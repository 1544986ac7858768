"""Reinstallation of a node's machine: a token for that node restores its identity."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.ports import port
from tests.system.conftest import DEMO, started

pytestmark = [pytest.mark.system, pytest.mark.long]


def test_reinstalled_node_keeps_name_labels_and_gpus(tmp_path: Path) -> None:
    with started(tmp_path, port(300)) as pool:
        (before,) = pool.api.items("nodes")
        gpus = {g["id"] for g in pool.api.items("gpus")}
        pool.api.request("PATCH", f"nodes/{before['id']}", {"labels": {"rack": "7"}})
        machine = pool.stack.node
        machine.stop()
        shutil.rmtree(machine.folder)
        fresh = type(machine)(machine.folder, pool.stack, machine.service.port, len(gpus))
        fresh.enrol(
            pool.api.request("POST", "enrolment-tokens", {"node_id": before["id"]})["token"]
        )
        fresh.start()
        try:
            pool.wait(
                "the node", lambda: bool(pool.api.items("nodes", state="ready")[0]["reachable"])
            )
            (after,) = pool.api.items("nodes")
            assert (after["id"], after["name"], after["labels"]) == (
                before["id"],
                before["name"],
                {"rack": "7"},
            )
            pool.wait(
                "its GPUs",
                lambda: {g["id"] for g in pool.api.items("gpus", present="true")} == gpus,
            )
            status, out, err = pool.finish(pool.start(25, DEMO, "work", "0.5"))
            assert status == 0 and "working" in out, err
        finally:
            fresh.stop()
