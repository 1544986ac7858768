"""The commands `busbar ca` and `busbar ticket-key`."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli.amounts import parse_duration
from remoting.cli.confirmation import Yes, confirm
from remoting.cli.output import Output, client, show_one

COLUMNS = ["kind", "phase", "phase_since", "ready_at", "pending_nodes"]
Hold = Annotated[
    float | None,
    typer.Option(
        parser=parse_duration,
        metavar="DURATION",
        help="Time before the next key signs. Default: 1d for a CA, else 0.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Do not wait for nodes or for the time.")]


def rotation_app(kind: str, title: str) -> typer.Typer:
    """Return the group of commands for one kind of keys."""
    app = typer.Typer(no_args_is_help=True, help=f"Show and rotate the {title}.")

    @app.command()
    def status(output: Output = "table") -> None:
        """Show the phase of the rotation and the nodes that it waits for."""
        show_one(client().request("GET", f"key-rotations/{kind}"), COLUMNS, output, ["keys"])

    @app.command()
    def rotate(
        hold: Hold = None,
        output: Output = "table",
    ) -> None:
        """Start a rotation. Its phases follow by themselves as soon as the nodes have followed."""
        body = {} if hold is None else {"hold_seconds": hold}
        show_one(client().request("POST", f"key-rotations/{kind}/start", body), COLUMNS, output)

    @app.command()
    def advance(
        force: Force = False,
        yes: Yes = False,
        output: Output = "table",
    ) -> None:
        """End the phase now. With --force, nodes that have not followed are lost."""
        body = {"force": force}
        if force:
            pending = client().request("GET", f"key-rotations/{kind}")["pending_nodes"]
            confirm(f"End the phase, and lose {len(pending)} nodes that have not followed?", yes)
        show_one(client().request("POST", f"key-rotations/{kind}/advance", body), COLUMNS, output)

    @app.command()
    def abort(output: Output = "table") -> None:
        """Let the previous key sign again and drop the next one."""
        show_one(client().request("POST", f"key-rotations/{kind}/abort"), COLUMNS, output)

    return app


ca_app = rotation_app("ca", "certificate authority")
ticket_key_app = rotation_app("ticket-key", "key that signs tickets")
