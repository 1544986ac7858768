"""The commands `show` of allocations, sessions and tasks, and `busbar session`."""

from __future__ import annotations

import json
from typing import Any

import typer

from remoting.cli import api as rest
from remoting.cli.activity_commands import task_app
from remoting.cli.allocation_commands import allocation_app
from remoting.cli.allocation_sizes import with_size
from remoting.cli.amounts import WaitOption
from remoting.cli.inventory_sheets import events_of
from remoting.cli.object_ids import AllocationName, id_of
from remoting.cli.output import Output, client, show
from remoting.cli.resize_command import describe_resize
from remoting.cli.sheet import Related, page, print_sheet
from remoting.cli.suspension_commands import describe

session_app = typer.Typer(
    no_args_is_help=True, help="List and show sessions: programs that use allocations."
)
ALLOCATION_FIELDS = (
    "state",
    "owner",
    "project",
    "pool",
    "placed_pool",
    "waiting_rule",
    "waiting_reason",
    "resize",
    "suspension",
    "gpu_count",
    "percent",
    "memory",
    "compute_mode",
    "granted_compute_mode",
    "max_sessions",
    "compute_enforcement",
    "compute_received",
    "longest_drain_ms",
    "model",
    "selector",
    "same_node",
    "priority",
    "preemptible",
    "hold",
    "lifetime_seconds",
    "created_at",
    "active_at",
    "evict_at",
    "ended_at",
    "end_reason",
    "labels",
    "id",
)
SESSION_FIELDS = (
    "state",
    "node",
    "client_address",
    "client_pid",
    "pid",
    "memory_bytes",
    "launches",
    "bytes_in",
    "bytes_out",
    "compute_mode",
    "compute_enforcement",
    "compute_received",
    "longest_drain_ms",
    "isolation",
    "refused_calls",
    "opened_at",
    "closed_at",
    "end_reason",
    "id",
)
TASK_FIELDS = (
    "kind",
    "state",
    "progress_percent",
    "initiator",
    "message",
    "error.detail",
    "result",
    "path",
    "parent_id",
    "created_at",
    "ended_at",
    "id",
)
SESSIONS = ("program", "state", "node", "client_address", "memory_bytes", "launches", "id")


def waiting(wait: float) -> dict[str, str]:
    return {"wait": str(wait)} if wait else {}


@allocation_app.command("show")
def allocation_show(
    allocation: AllocationName, wait: WaitOption = 0, output: Output = "table"
) -> None:
    """Show an allocation with its partitions, sessions, alternatives and events."""
    api = client()
    allocation_id = id_of(api, "allocations", allocation)
    row = api.request("GET", f"allocations/{allocation_id}", None, **waiting(wait))
    related = [
        Related(
            "Partitions",
            ("node", "gpu_index", "compute_percent", "memory_bytes", "gpu_id"),
            lambda: row["partitions"],
        ),
        Related("Sessions", SESSIONS, lambda: page(api, "sessions", allocation_id=allocation_id)),
        events_of(api, row["id"]),
    ]
    if row["waiting_rule"]:
        related.insert(0, alternatives(api, allocation_id))
    title = f"Allocation {row['name'] or row['id']}"
    shown = row if output in ("json", "yaml") else with_sentences(row)
    print_sheet(title, shown, ALLOCATION_FIELDS, related, output)


def with_sentences(allocation: dict[str, Any]) -> dict[str, Any]:
    """Return the allocation with its resize and its suspension as sentences."""
    suspension, waiting_reason = allocation["suspension"], allocation["waiting_reason"]
    resize = describe_resize(allocation)
    return with_size(allocation) | {
        "resize": resize,
        "suspension": describe(allocation) if suspension else "",
        "waiting_reason": "" if resize else waiting_reason,  # a resize that is queued has it
        "compute_received": received_text(allocation),
    }


def received_text(row: dict[str, Any]) -> str:
    """Return the share of the compute that an allocation or session received; empty if unknown."""
    received, error = row["compute_received_percent"], row["compute_error_percent"]
    if received is None:
        return ""
    apart = "" if error is None else f" ({error:+} points from the granted share)"
    return f"{received} %{apart}"


def alternatives(api: rest.Api, allocation_id: str) -> Related:
    return Related(
        "Alternatives that would start immediately",
        ("difference", "pool", "gpu_count", "percent", "memory"),
        lambda: map(
            with_size,
            api.request("GET", f"allocations/{allocation_id}/explanation")["alternatives"],
        ),
    )


@session_app.command("list")
def session_list(
    allocation: str = typer.Option("", help="Id or name of an allocation."),
    every: bool = typer.Option(False, "--all", help="Also sessions that are closed."),
    output: Output = "table",
) -> None:
    """List sessions, newest first."""
    api = client()
    filters = {"allocation_id": id_of(api, "allocations", allocation)} if allocation else {}
    filters |= {} if every else {"state": "running"}
    show(api.items("sessions", **filters), SESSIONS, output, ["allocation_id", "opened_at"])


@session_app.command("show")
def session_show(session_id: str, output: Output = "table") -> None:
    """Show a session with its allocation."""
    api = client()
    row = api.request("GET", f"sessions/{id_of(api, 'sessions', session_id)}")
    allocation = Related(
        "Allocation",
        ("name", "owner", "project", "state", "gpu_count", "percent", "id"),
        lambda: [with_size(api.request("GET", f"allocations/{row['allocation_id']}"))],
    )
    is_data = output in ("json", "yaml")
    shown = row if is_data else row | {"compute_received": received_text(row)}
    print_sheet(f"Session of {row['program']}", shown, SESSION_FIELDS, [allocation], output)


@task_app.command("show")
def task_show(task_id: str, wait: WaitOption = 0, output: Output = "table") -> None:
    """Show a task with its result, its parts and its log."""
    api = client()
    task_id = id_of(api, "tasks", task_id)
    row = api.request("GET", f"tasks/{task_id}", None, **waiting(wait))
    related = [
        Related(
            "Log",
            ("created_at", "progress_percent", "message"),
            lambda: list(reversed(page(api, f"tasks/{task_id}/log"))),
        ),
        Related(
            "Parts",
            ("kind", "state", "progress_percent", "message", "id"),
            lambda: page(api, "tasks", parent_id=task_id),
        ),
    ]
    shown: dict[str, Any] = dict(row)
    if output not in ("json", "yaml") and row["result"] is not None:
        shown["result"] = json.dumps(row["result"])
    print_sheet(f"Task {row['kind']}", shown, TASK_FIELDS, related, output)
