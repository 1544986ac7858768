"""The command `busbar install-line`."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli.api import ApiError
from remoting.cli.output import client

NOT_BUILT = (
    "The appliance has no client packages. Build them there: python -m deploy.packages client"
)


def install_line(
    wget: Annotated[
        bool, typer.Option("--wget", help="For a machine that has wget and not curl.")
    ] = False,
) -> None:
    """Print the shell line that installs the client on another machine.

    The line contains the fingerprint of the appliance's CA and trusts nothing else. To read the
    script before you run it, leave out the end of the line from `&& sh` on.
    """
    found = client().request("GET", "client-installation")
    if not found["packages"]:
        raise ApiError(NOT_BUILT)
    typer.echo(found["wget_line"] if wget else found["curl_line"])
