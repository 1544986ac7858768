"""The commands `busbar token` and `busbar logout`."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli import api as rest
from remoting.cli.amounts import parse_whole_seconds
from remoting.cli.confirmation import Yes, confirm
from remoting.cli.object_ids import id_of
from remoting.cli.output import Output, client, show, show_one

token_app = typer.Typer(no_args_is_help=True, help="Manage API tokens of programs.")
TokenName = Annotated[
    str, typer.Argument(help="Id of the token, 8 or more of its first characters, or a name.")
]
COLUMNS = ["name", "user", "scopes", "networks", "expires_at", "last_used_at", "id"]
FIELDS = [*COLUMNS[:-1], "last_used_address", "created_at", "id"]


@token_app.command("list")
def token_list(
    user: Annotated[str, typer.Option(help="Name of a user.")] = "", output: Output = "table"
) -> None:
    """List your tokens, also those of logins; for administrators those of all users."""
    show(client().items("tokens", **({"user": user} if user else {})), COLUMNS, output)


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Argument(help="What uses the token, for example ci.")],
    user: Annotated[str, typer.Option(help="Name of a service account; else it is yours.")] = "",
    lifetime: Annotated[
        int | None,
        typer.Option(
            parser=parse_whole_seconds,
            metavar="DURATION",
            help="Time until the token ends, for example 30d. Default: 90d.",
        ),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="Privilege that the token may use, or a built-in role for all of its privileges. "
            "Repeat for several. Default: all privileges of its user.",
        ),
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CIDR",
            help="Network from which the token is valid, for example 10.0.0.0/8 or 2001:db8::/32. "
            "Repeat for several. Default: all.",
        ),
    ] = None,
    output: Output = "table",
) -> None:
    """Create a token and print it. It is shown only once."""
    wanted = {"user": user, "lifetime_seconds": lifetime, "scopes": scope, "networks": network}
    body = {"name": name} | {key: value for key, value in wanted.items() if value or value == 0}
    response = client().request("POST", "tokens", body)
    if output == "table":
        typer.echo(response["token"])
    else:
        show_one(response, FIELDS, output)


@token_app.command("revoke")
def token_revoke(
    token: TokenName,
    yes: Yes = False,
) -> None:
    """Revoke a token, with those that it has made."""
    api = client()
    token_id = id_of(api, "tokens", token)
    row = api.request("GET", f"tokens/{token_id}")
    made = len(api.items("tokens", made_with_id=token_id))
    used = (row["last_used_at"] or "never")[:16].replace("T", " ")
    confirm(
        f"Revoke the token {row['name']} of {row['user']}, last used {used}, and {made} tokens "
        "that it has made?",
        yes,
    )
    api.request("DELETE", f"tokens/{token_id}")


def logout() -> None:
    """Sign out: revoke the stored token and delete the stored credentials.

    Tokens that the stored one has made end with it, and so do programs of `busbar run` that use it.
    If the appliance is not reached, the credentials are deleted, too.
    """
    context = rest.stored_context()
    try:
        rest.Api(context).request("DELETE", "browser-login")
    except rest.ApplianceUnreachable as error:
        if error.__cause__ is None:
            raise  # it answered, with a status of 500 or more
        rest.delete_context()
        raise rest.ApiError(
            f"The stored credentials are deleted, but {context.url} did not answer: the token"
            " may still be valid there. Revoke it in the console, or after another login with:"
            " busbar token revoke"
        ) from None
    except rest.ApiError as error:
        if error.code != "unauthenticated":
            raise
    rest.delete_context()
    typer.echo(f"Signed out of {context.url}.")
