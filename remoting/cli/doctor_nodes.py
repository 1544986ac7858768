"""Checks of `busbar doctor` at the nodes: ports, ticket of an allocation, and speed."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from remoting.cli import run_command
from remoting.cli.api import EXIT_DENIED, Api, ApiError
from remoting.cli.doctor_finding import FAILED, OK, WARNING, Finding, failed
from remoting.cli.doctor_library import command_of, is_inside, run_probe
from remoting.cli.doctor_network import (
    CONNECT_SECONDS,
    Attempt,
    connect,
    reason,
    shown_address,
    shown_seconds,
)
from remoting.cli.object_ids import id_of
from remoting.cli.ticket_file import TicketFile, allocation_in

MAX_NODES = 8
MEASUREMENT_SECONDS = 60.0
SLOW_SECONDS = 0.005
SLOW_BYTES_PER_SECOND = 100e6
GIB = 1 << 30
NODE_PORT = (
    "Ask for this TCP port in the firewalls between this machine and the node; other nodes may"
    " serve meanwhile."
)


@dataclass(frozen=True)
class Node:
    name: str
    endpoints: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Reached:
    node: Node
    seconds: float
    address: tuple[str, int]


def nodes_of(rows: Sequence[Mapping[str, Any]], name: str) -> list[Node]:
    """Return nodes from rows of the API whose field `name` has the name."""
    return [
        Node(row[name], tuple((e["address"], e["port"]) for e in row["endpoints"])) for row in rows
    ]


def all_nodes_findings(api: Api) -> Generator[Finding, None, frozenset[str]]:
    """Yield the findings of the nodes that this account may view, a few of many.

    Return the names of those that were tried.
    """
    try:
        rows = [row for row in api.items("nodes") if is_usable(row)]
    except ApiError as error:
        yield not_listed("node port", error)
        return frozenset()
    if not rows:
        text = "There is no node that this account may use and that the appliance reaches."
        yield Finding("node port", WARNING, text, "Ask an administrator: busbar node list")
        return frozenset()
    nodes = nodes_of(rows[:MAX_NODES], "name")
    yield from port_findings(nodes)
    if len(rows) > MAX_NODES:
        yield Finding("node port", OK, f"{len(rows) - MAX_NODES} more nodes were not tried.")
    return frozenset(node.name for node in nodes)


def not_listed(check: str, error: ApiError) -> Finding:
    """Return a warning for an account that may not list objects: it may still use them."""
    fix = "Name an allocation: busbar doctor ALLOCATION"
    state = WARNING if error.exit_code == EXIT_DENIED else FAILED
    return replace(failed(check, error, fix), state=state)


def is_usable(node: Mapping[str, Any]) -> bool:
    return bool(node["reachable"] and node["endpoints"] and not node["simulated"])


def port_findings(nodes: Sequence[Node]) -> Iterator[Finding]:
    """Try all endpoints at the same time. Yield a finding for each node, and the round trip."""
    attempts = [(n, e, Attempt(partial(connect, *e))) for n in nodes for e in n.endpoints]
    reached: list[Reached] = []
    errors: dict[str, list[str]] = {}
    for node, endpoint, attempt in attempts:
        try:
            reached.append(Reached(node, attempt.result(2 * CONNECT_SECONDS), endpoint))
        except OSError as error:
            text = f"{shown_address(*endpoint)} {reason(error)}"
            errors.setdefault(node.name, []).append(text)
    for node in nodes:
        best = min((r for r in reached if r.node is node), key=lambda r: r.seconds, default=None)
        yield port_finding(node, best, errors.get(node.name, []))
    if reached:
        slowest = max(r.seconds for r in reached)
        yield waiting_finding("round trip", "A connection", slowest)


def port_finding(node: Node, best: Reached | None, errors: Sequence[str]) -> Finding:
    if best is None:
        text = ", ".join(errors) or "has no address"
        return Finding("node port", FAILED, f"{node.name}: {text}.", NODE_PORT)
    address = shown_address(*best.address)
    text = f"{node.name}: {address} reached in {shown_seconds(best.seconds)}."
    return Finding("node port", OK, text)


def waiting_finding(check: str, what: str, seconds: float) -> Finding:
    calls = 1 / max(seconds, 1e-6)
    text = f"{what} takes {shown_seconds(seconds)}: at most {calls:,.0f} calls a second that wait."
    if seconds <= SLOW_SECONDS:
        return Finding(check, OK, text)
    fix = "Run the program nearer to the node, or let it wait for results less often."
    return Finding(check, WARNING, text, fix)


def bandwidth_finding(bytes_per_second: float) -> Finding:
    text = (
        f"{bytes_per_second / 1e9:.2f} GB/s to the GPU: a copy of 1 GiB takes"
        f" {GIB / bytes_per_second:.1f} s."
    )
    if bytes_per_second >= SLOW_BYTES_PER_SECOND:
        return Finding("bandwidth", OK, text)
    fix = "Use a faster network between this machine and the node, or copy less: keep data there."
    return Finding("bandwidth", WARNING, text, fix)


def allocation_findings(api: Api, given: str) -> Iterator[Finding]:
    """Yield findings of a named allocation: its ticket, the ports of its nodes and their speed."""
    try:
        row = api.request("GET", f"allocations/{id_of(api, 'allocations', given)}")
    except ApiError as error:
        yield failed("ticket", error, "List them with: busbar allocation list")
        return
    yield from ticket_findings(api, row, measures=True)


def ticket_findings(
    api: Api, row: Mapping[str, Any], *, measures: bool, tried: Set[str] = frozenset()
) -> Iterator[Finding]:
    """Yield findings of an allocation. A suspended one is not measured: that would resume it.

    Ports of nodes with the names `tried` are left out.
    """
    if row["state"] in ("queued", "preparing"):
        fix = f"Wait for it. The reason: busbar explain {row['id']}"
        yield Finding("ticket", WARNING, f"Allocation {shown_name(row)} is {row['state']}.", fix)
        return
    keeper = run_command.LeaseKeeper(api, row["id"], TicketFile())
    try:
        try:
            tickets = keeper.write_ticket()["tickets"]
        except ApiError as error:
            yield failed("ticket", error, "Start another: busbar run, or busbar allocation create")
            return
        nodes = nodes_of(tickets, "node")
        names = ", ".join(node.name for node in nodes)
        yield Finding("ticket", OK, f"Allocation {shown_name(row)} has tickets for {names}.")
        ports = list(port_findings([node for node in nodes if node.name not in tried]))
        yield from ports
        if measures and row["state"] == "active" and all(p.state != FAILED for p in ports):
            environment = run_command.environment(
                keeper.file.path, any(t["software"] for t in tickets)
            )
            yield from speed_findings(environment, [keeper.file.descriptor])
    finally:
        keeper.file.close()


def shown_name(row: Mapping[str, Any]) -> str:
    return f"{row['name']} ({row['id'][:13]})" if row["name"] else str(row["id"])


def running_allocation_findings(api: Api, tried: Set[str]) -> Iterator[Finding]:
    """Yield findings of the newest active allocation of the caller, if there is one.

    Ports of nodes with the names `tried` are left out.
    """
    try:
        username = api.request("GET", "me")["username"]
        rows = [a for a in api.items("allocations", state="active") if a["owner"] == username]
    except ApiError as error:
        yield not_listed("ticket", error)
        return
    if rows:
        yield from ticket_findings(api, rows[0], measures=False, tried=tried)


def own_end_findings(api: Api) -> Iterator[Finding]:
    """Yield a finding if the allocation of `busbar run`, inside of it, has ended.

    Yields none if the appliance does not tell: the measurement says then what is wrong.
    """
    if not (allocation_id := allocation_in(os.environ["BUSBAR_TICKET_FILE"])):
        return
    try:
        row = api.request("GET", f"allocations/{allocation_id}")
    except ApiError:
        return
    if row["state"] not in run_command.RUNNING:
        ending = run_command.ending_of(row)
        yield Finding("ticket", FAILED, ending, "Start `busbar run` again.")


def own_findings() -> Iterator[Finding]:
    """Yield findings of the allocation of `busbar run`, inside of it."""
    yield from speed_findings(os.environ, ())


def fix_of_absent_gpu(environment: Mapping[str, str]) -> str:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible:
        return f"Unset CUDA_VISIBLE_DEVICES ({visible}): it names GPUs that the allocation lacks."
    if visible is not None:
        return "Unset CUDA_VISIBLE_DEVICES: it is empty, which hides all GPUs."
    return "Look for a check above that is not ok; if all are, the node's log has the reason."


def speed_findings(environment: Mapping[str, str], descriptors: Sequence[int]) -> Iterator[Finding]:
    """Yield what a program on the allocation measures. It uses up to 64 MiB of GPU memory."""
    found = run_probe(command_of("measure"), environment, MEASUREMENT_SECONDS, descriptors)
    if "error" in found:
        text = f"A program has no GPU: {found['error']}."
        yield Finding("GPU", FAILED, text, fix_of_absent_gpu(environment))
        return
    where = "this program's allocation" if is_inside() else "the allocation"
    yield Finding("GPU", OK, f"A program uses the GPU of {where}.")
    yield waiting_finding("call", "A call that waits", found["call_seconds"])
    yield bandwidth_finding(found["bytes_per_second"])
