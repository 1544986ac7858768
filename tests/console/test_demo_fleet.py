"""A small demo fleet: the nodes, programs, alarms and history of `./run --demo-fleet 2`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from deploy.supervisor import Stack
from remoting.cli.api import Context, save_context
from tests.console.conftest import sign_in
from tests.console.pictures import picture
from tests.migrated import place_migrated_databases
from tests.ports import port
from tests.remoting.conftest import compiled  # noqa: F401
from tests.system.conftest import Pool

pytestmark = pytest.mark.system

NODES = 2
BANNER = f"{NODES} simulated nodes: their GPUs, programs, users and alarms do not exist."
THIRTY_DAYS_OF_HOURS = 30 * 24


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    folder = tmp_path_factory.mktemp("demo")
    stack = Stack(folder / "data", base_port=port(730))
    place_migrated_databases(stack.appliance_data)
    try:
        stack.start_with_demo_fleet(NODES)
        token = stack.manage("create_token", "--role", "administrator").splitlines()[-1]
        ca = (stack.appliance_data / "ca.pem").read_text()
        yield Pool(stack, save_context(Context(stack.url, token, ca), folder / "context.json"))
    finally:
        stack.stop()


def simulated(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["simulated"]]


def test_simulated_nodes_are_marked_and_the_node_of_this_machine_is_not(fleet: Pool) -> None:
    fleet.wait(
        "sites and heartbeats of all nodes",
        lambda: all(n["reachable"] and n["site"] for n in simulated(fleet.api.items("nodes"))),
    )
    nodes = fleet.api.items("nodes")
    assert {n["name"] for n in simulated(nodes)} == {"demo-01", "demo-02"} and len(nodes) == 3
    gpus = fleet.api.items("gpus")
    assert {g["pool"] for g in simulated(gpus)} == {"demo"} and len(simulated(gpus)) == 16
    assert {g["pool"] for g in gpus if not g["simulated"]} == {"default"}


def test_programs_run_and_work_on_granted_partitions(fleet: Pool) -> None:
    def works() -> bool:
        sessions = fleet.sessions(state="running")
        return any(s["launches"] > 0 and s["memory_bytes"] > 0 for s in sessions)

    fleet.wait("a program that has worked", works)
    states = {a["state"] for a in fleet.api.items("allocations", state="active")}
    assert states == {"active"}


def test_release_ends_the_programs_of_an_allocation(fleet: Pool) -> None:
    fleet.wait("a program", lambda: bool(fleet.sessions(state="running")))
    session = fleet.sessions(state="running")[0]
    fleet.api.request("DELETE", f"allocations/{session['allocation_id']}")

    def has_ended() -> bool:
        closed = fleet.sessions(state="closed")
        return any(s["id"] == session["id"] for s in closed)

    fleet.wait("the end of the program", has_ended)


def test_fault_raises_an_alarm(fleet: Pool) -> None:
    def raised() -> bool:
        alarms = fleet.api.items("alarms", open="true")
        return any(a["name"] == "Uncorrected ECC errors" for a in alarms)

    fleet.wait("the alarm", raised)


def test_gpus_have_a_history_of_30_days(fleet: Pool) -> None:
    gpu = simulated(fleet.api.items("gpus"))[0]
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 30 * 86_400))
    history = fleet.api.request("GET", f"gpus/{gpu['id']}/metrics", since=since)
    points = {item["metric"]: item["points"] for item in history["items"]}
    assert len(points["utilisation_percent"]) >= THIRTY_DAYS_OF_HOURS - 1
    assert fleet.api.items("alarms", open="false") and fleet.api.items(
        "allocations", state="released"
    )


def test_console_says_on_each_page_that_the_nodes_are_simulated(
    fleet: Pool, context: BrowserContext, screenshots: Path
) -> None:
    console = sign_in(context, fleet, "administrator")
    console.open()
    for name, path in (("overview", "/"), ("fleet", "/fleet"), ("alarms", "/alarms")):
        console.navigate(path)
        expect(console.page.get_by_text(BANNER)).to_be_visible()
        expect(console.page.get_by_role("heading", level=1)).to_be_visible()
        picture(console.page, screenshots, f"demo-{name}")
    console.page.get_by_role("link", name="demo-02").first.click()
    expect(console.page.get_by_role("main").get_by_text("Simulated").first).to_be_visible()
    assert console.errors == []


def test_appliance_with_real_nodes_takes_no_demo_fleet(tmp_path: Path, fleet: Pool) -> None:
    stack = Stack(tmp_path / "data", base_port=port(760))
    place_migrated_databases(stack.appliance_data)
    try:
        stack.start_appliance()
        stack.node.enrol(stack.manage("create_enrolment_token"))
        stack.appliance.stop()
        with pytest.raises(SystemExit, match="needs a data folder of its own"):
            stack.start_with_demo_fleet(1)
    finally:
        stack.stop()
