"""The command `busbar second-factor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from remoting.cli.confirmation import Yes, confirm
from remoting.cli.output import Output, client, show_one
from remoting.cli.prompts import PasswordStdin, ask

second_factor_app = typer.Typer(
    no_args_is_help=True, help="Manage your second factor: an authenticator app or passkeys."
)
FIELDS = ["policy", "is_required", "since", "recovery_codes_left"]
QUIET_ZONE = 2
"""Light modules around a QR code, which scanners need."""
HALVES = {("0", "0"): "█", ("0", "1"): "▀", ("1", "0"): "▄", ("1", "1"): " "}
"""Two modules above each other in one character: light ones are drawn, on a dark terminal."""


@second_factor_app.command("show")
def second_factor_show(output: Output = "table") -> None:
    """Show whether you have a second factor, and whether one is required."""
    show_one(client().request("GET", "second-factor"), FIELDS, output)


@second_factor_app.command("enable")
def second_factor_enable(password_stdin: PasswordStdin = False) -> None:
    """Set up an authenticator app, or replace it. Needs a sign-in of the last 10 minutes."""
    api = client()
    print_secret(api.request("POST", "second-factor"))
    other_ways = "Repeat in a terminal, or with --password-stdin."
    question = "Code that the app shows now: "
    code = ask(question, other_ways, hidden=False, reads_stdin=password_stdin).strip()
    response = api.request("POST", "second-factor/confirmation", {"code": code})
    print_recovery_codes(response["recovery_codes"])


@second_factor_app.command("disable")
def second_factor_disable(yes: Yes = False) -> None:
    """Remove your second factor. Needs a sign-in of the last 10 minutes."""
    confirm("Remove your second factor, with its passkeys and recovery codes?", yes)
    client().request("DELETE", "second-factor")


@second_factor_app.command("recovery-codes")
def second_factor_recovery_codes(yes: Yes = False) -> None:
    """Print new recovery codes; the old ones end. Needs a sign-in of the last 10 minutes."""
    confirm("Replace your recovery codes? The old ones end.", yes)
    print_recovery_codes(client().request("POST", "second-factor/recovery-codes")["recovery_codes"])


def print_secret(fields: Mapping[str, Any]) -> None:
    """Print a new secret as a QR code and as text."""
    typer.echo("Scan this with an authenticator app, or type the secret into it.\n")
    typer.echo(qr_text(fields["qr"]))
    typer.echo(f"\nSecret: {fields['secret']}")


def qr_text(rows: Sequence[str]) -> str:
    """Return a QR code as lines of half blocks."""
    width = len(rows[0]) + 2 * QUIET_ZONE
    margin, blank = "0" * QUIET_ZONE, "0" * width
    padded = [blank] * QUIET_ZONE + [f"{margin}{row}{margin}" for row in rows]
    padded += [blank] * (QUIET_ZONE + len(padded) % 2)
    pairs = zip(padded[::2], padded[1::2], strict=True)
    return "\n".join(
        "".join(HALVES[pair] for pair in zip(upper, lower, strict=True)) for upper, lower in pairs
    )


def print_recovery_codes(codes: Sequence[str]) -> None:
    if codes:
        typer.echo("Recovery codes. Each replaces one code of the app, once. Keep them safe:")
        typer.echo("\n".join(f"  {code}" for code in codes))
