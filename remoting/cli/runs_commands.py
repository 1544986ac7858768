"""Commands for programs that run in the background of this machine."""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from typing import Annotated

import typer

from remoting.cli import detached_runs
from remoting.cli.amounts import parse_duration
from remoting.cli.api import ApiError
from remoting.cli.output import Output, client, show
from remoting.cli.run_command import release

RunId = Annotated[
    str,
    typer.Argument(help="Id of the run, or its first or last characters. Default: the newest run."),
]


def runs(output: Output = "table") -> None:
    """List the programs that `busbar run --detach` started on this machine."""
    rows = []
    for run in detached_runs.all_runs():
        described = run.description()
        started = described.get("started_at")
        rows.append(
            {
                "id": run.id,
                "state": run.state(),
                "started_at": datetime.fromtimestamp(started, timezone.utc).isoformat()
                if started
                else "",
                "command": shlex.join(described.get("command", [])),
            }
        )
    show(rows, ["id", "state", "started_at", "command"], output)


def logs(
    run_id: RunId = "",
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Continue until the program has ended.")
    ] = False,
) -> None:
    """Print the output of a program that `busbar run --detach` started."""
    detached_runs.print_log(detached_runs.find_run(run_id), follow=follow)


def stop(
    run_id: RunId = "",
    grace: Annotated[
        float,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="Time from SIGTERM to SIGKILL.",
        ),
    ] = 10,
) -> None:
    """End a program that `busbar run --detach` started."""
    run = detached_runs.find_run(run_id)
    if not detached_runs.stop(run, grace):
        release(client(), run.id)  # its supervisor was killed as well
        raise ApiError(f"{run.id} did not end within {grace:.0f} s after SIGTERM and was killed.")
    typer.echo(f"{run.id} {run.state()}")
