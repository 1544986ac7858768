"""The commands `busbar allocation`."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli import run_command, suspension_commands
from remoting.cli.allocation_request import (
    AllocationRequest,
    DryRun,
    print_outcome,
    takes_request,
    tell_shorter_lifetime,
)
from remoting.cli.allocation_sizes import with_size
from remoting.cli.amounts import QueueTimeout
from remoting.cli.confirmation import Yes, confirm
from remoting.cli.object_ids import AllocationName, id_of, own_allocation
from remoting.cli.output import Output, client, print_structured, show

allocation_app = typer.Typer(
    no_args_is_help=True, help="Create, list, show, use and release allocations."
)
for command in (suspension_commands.suspend, suspension_commands.resume):
    allocation_app.command()(command)
ALLOCATION_COLUMNS = [
    "id",
    "name",
    "state",
    "owner",
    "gpu_count",
    "percent",
    "waiting_reason",
    "created_at",
]
ALLOCATION_WIDE = [
    "project",
    "pool",
    "placed_pool",
    "compute_mode",
    "compute_enforcement",
    "compute_received_percent",
    "memory",
    "resize.reason",
    "suspension.state",
    "suspension.reason",
    "priority",
    "lifetime_seconds",
    "evict_at",
    "end_reason",
]


@allocation_app.command("list")
def allocation_list(
    state: Annotated[str, typer.Option(help="State, for example active.")] = "",
    output: Output = "table",
) -> None:
    """List allocations, newest first, with the reason if they are queued."""
    rows = client().items("allocations", **({"state": state} if state else {}))
    if not print_structured(rows, output):
        show(
            [with_size(row) | {"state": progress(row)} for row in rows],
            ALLOCATION_COLUMNS,
            output,
            ALLOCATION_WIDE,
        )


def progress(row: dict[str, Any]) -> str:
    """Return the state of an allocation, and that of its resize if there is one.

    An older appliance serializes no resize.
    """
    resize = row.get("resize")
    return f"{row['state']}, {resize['state']}" if resize else str(row["state"])


@allocation_app.command("create")
@takes_request
def allocation_create(
    request: AllocationRequest,
    name: Annotated[str, typer.Option(help="Name of the allocation.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Allocate GPUs that stay allocated until their lifetime ends, and print the id.

    --lifetime is needed unless the pool has a maximum. No program has to run meanwhile.
    """
    body = {"name": name, "hold": "lifetime"}
    if dry_run:
        return print_outcome(client(), request, **body)
    api = client()
    allocation = api.request("POST", "allocations", request.body(api) | body)
    tell_shorter_lifetime(request.lifetime, allocation)
    typer.echo(allocation["id"])


@allocation_app.command(
    "attach", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def allocation_attach(
    allocation: AllocationName,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Program and its arguments, after --. Default: your shell."),
    ] = None,
    timeout: QueueTimeout = None,
) -> None:
    """Run a program on an allocation, which is not released at the end."""
    program = command or [os.environ.get("SHELL") or "/bin/sh"]
    api = client()
    raise typer.Exit(
        run_command.run_on_existing(
            api, id_of(api, "allocations", allocation), program, timeout_seconds=timeout
        )
    )


def confirm_end_of_programs(api: rest.Api, allocation_id: str, yes: bool) -> None:
    """Ask whether to end the programs that use an allocation, if there are any."""
    sessions = [] if yes else api.items("sessions", allocation_id=allocation_id, state="running")
    if sessions:
        programs = ", ".join(f"{s['program']} on {s['client_address']}" for s in sessions)
        noun = "program" if len(sessions) == 1 else "programs"
        confirm(f"End {len(sessions)} {noun} ({programs})?", yes)


@allocation_app.command("release")
def allocation_release(
    allocation: AllocationName,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Release without confirmation from an unreachable node. Requires administrator.",
        ),
    ] = False,
    yes: Yes = False,
) -> None:
    """End an allocation and its sessions. Asks if programs use it."""
    api = client()
    allocation_id = own_allocation(api, allocation, "force_release" if force else "release")
    confirm_end_of_programs(api, allocation_id, yes)
    method, path = (
        ("POST", f"allocations/{allocation_id}/force-release")
        if force
        else ("DELETE", f"allocations/{allocation_id}")
    )
    typer.echo(api.request(method, path)["state"])
