"""The command line of `busbar run`."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli import api as rest
from remoting.cli import run_command
from remoting.cli.allocation_request import AllocationRequest, DryRun, print_outcome, takes_request
from remoting.cli.amounts import QueueTimeout
from remoting.cli.object_ids import id_of
from remoting.cli.output import client


@takes_request
def run(
    command: Annotated[list[str], typer.Argument(help="Program and its arguments, after --.")],
    request: AllocationRequest,
    timeout: QueueTimeout = None,
    allocation: Annotated[
        str, typer.Option(help="Id or name of an allocation. It is not released at the end.")
    ] = "",
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Return at once. Follow the program with: busbar logs -f"),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Run a program on GPUs of a pool: busbar run -n 1 -p 25 -- python train.py"""
    if dry_run:
        return print_outcome(client(), request)
    if detach and allocation:
        raise rest.ApiError(
            "--detach makes an allocation of its own: omit --allocation.", rest.EXIT_USAGE
        )
    api = client()
    if detach:
        started = run_command.run_detached(
            api, command, request=request.body(api), timeout_seconds=timeout
        )
        typer.echo(started.id)
        return
    raise typer.Exit(
        run_command.run(
            api,
            command,
            request=request.body(api),
            timeout_seconds=timeout,
            allocation_id=id_of(api, "allocations", allocation) if allocation else "",
        )
    )
