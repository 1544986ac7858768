"""The command `busbar resize`, and how other commands show a resize."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.allocation_request import tell_ignored_share
from remoting.cli.amounts import MemorySize, parse_short_wait
from remoting.cli.object_ids import AllocationName, own_allocation
from remoting.cli.output import Output, cell, client, print_structured, size_text

APPLY_SECONDS = 5.0
"""Default time for the nodes to apply a size."""
Percent = Annotated[
    int | None,
    typer.Option(
        "-p",
        "--percent",
        min=0,
        max=100,
        help="Share of the compute of each GPU and, unless the allocation has a --memory, of "
        "its memory. 0: in proportion to the memory.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        help="Meaning of the percent: shared (in proportion to the others), capped (never"
        " more), guaranteed (at least) or exclusive (whole GPUs).",
    ),
]
ApplyTime = Annotated[
    float,
    typer.Option(
        "--wait",
        parser=parse_short_wait,
        metavar="DURATION",
        show_default=f"{APPLY_SECONDS:.0f}s",
        help="Time to wait until the change is complete, for example 30s; 60s at most.",
    ),
]


def resize(
    allocation: AllocationName,
    percent: Percent = None,
    memory: MemorySize = None,
    mode: Mode = None,
    wait: ApplyTime = APPLY_SECONDS,
    output: Output = "table",
) -> None:
    """Change size and compute mode of an active allocation while its programs run.

    It grows at once if the capacity is free, and otherwise waits in the queue with its old size and
    mode. Memory that it uses beyond a smaller size is free when its programs free it.
    """
    body = {"percent": percent, "memory_bytes": memory, "compute_mode": mode}
    if set(body.values()) == {None}:
        raise rest.ApiError("Give at least one of --percent, --memory, --mode.", rest.EXIT_USAGE)
    given = {name: value for name, value in body.items() if value is not None}
    if mode == "exclusive":
        tell_ignored_share(given)
        given = {"compute_mode": mode}
    api = client()
    path = f"allocations/{own_allocation(api, allocation)}"
    row = api.request("PATCH", path, given, wait=str(wait))
    if not print_structured(row, output):
        typer.echo(describe_size(row))
        print_resize(row)
        print_victims(api, row)
    if any(row[name] != value for name, value in given.items()):
        text = "Another resize has replaced this one while it was in progress."
        raise rest.ApiError(text, rest.EXIT_CONFLICT)


def print_victims(api: rest.Api, allocation: dict[str, Any]) -> None:
    """Print the allocations that will end so that this one can grow, if it waits for that.

    The appliance names none in the reason: they may belong to projects that the user may not view.
    """
    if allocation["waiting_rule"] != "reclaim":
        return
    victims = [
        f"{row['name'] or row['id']} (project {row['project']}, owner {row['owner']}) at"
        f" {cell(row, 'evict_at')} UTC"
        for state in ("active", "suspended")
        for row in api.items("allocations", state=state)
        if row["evict_at"] and allocation["id"] in row["end_reason"]
    ]
    if victims:
        typer.echo(f"Will end with their programs: {', '.join(victims)}.")
    typer.echo("What will end for this resize goes on if you resize to the present size and mode.")


def describe_size(allocation: dict[str, Any]) -> str:
    """Return the granted size on each GPU, with the compute mode, one line each."""
    return "\n".join(
        f"{p['node']}/{p['gpu_index']}: {p['compute_percent']} % of the compute,"
        f" {size_text(p['memory_bytes'])}, {allocation['granted_compute_mode']}"
        for p in allocation["partitions"]
    )


def print_resize(allocation: dict[str, Any]) -> None:
    """Print the resize that is in progress, if there is one."""
    if allocation["resize"]:
        typer.echo(f"Resize {describe_resize(allocation)}")


def describe_resize(allocation: dict[str, Any]) -> str:
    """Return the state of the resize and what it waits for; empty without one."""
    progress = allocation["resize"]
    return f"{progress['state']}: {progress['reason']}" if progress else ""
