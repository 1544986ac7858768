"""The command `busbar login`."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.device_login import sign_in_by_code
from remoting.cli.prompts import PasswordStdin, ask, has_terminal
from remoting.cli.second_factor_commands import print_recovery_codes, print_secret

NEW_PASSWORD = "This password is valid once. New password, at least 12 characters: "
REPEATED = "New password again: "
CODE = "Code of the authenticator app, or a recovery code: "
FINGERPRINT = re.compile("[0-9a-f]{64}")
OTHER_WAYS = "Repeat with --device, --password-stdin, or --token-stdin and a token."


def login(
    url: Annotated[str, typer.Argument(help="URL of the appliance: https://ADDRESS:8443.")],
    username: Annotated[str, typer.Option(help="Name of the user.")] = "admin",
    ca_sha256: Annotated[
        str,
        typer.Option(help="SHA-256 fingerprint of the appliance's CA. Prompts if not given."),
    ] = "",
    device: Annotated[
        bool,
        typer.Option(
            "--device", help="Ask for no password: show a code, which you approve in the console."
        ),
    ] = False,
    token_stdin: Annotated[
        bool,
        typer.Option("--token-stdin", help="Read an API token from standard input. Asks nothing."),
    ] = False,
    password_stdin: PasswordStdin = False,
) -> None:
    """Sign in. Stores the URL, the CA and a token in a private file.

    Without a password it shows a code, which you approve in the console.
    """
    if token_stdin and password_stdin:
        raise rest.ApiError("Give --token-stdin or --password-stdin, not both.", rest.EXIT_USAGE)
    url = rest.without_path(url)
    pem = trusted_ca(url, ca_sha256, asks=not token_stdin)
    if token_stdin:
        store_token(rest.Context(url, given_token(), pem))
        return
    anonymous = rest.Api(rest.Context(url, "", pem, rest.known_device(url)))
    question = f"Password of {username} (empty: by a code): "
    password = "" if device else ask(question, OTHER_WAYS, reads_stdin=password_stdin)
    if password:
        response = send(anonymous, {"username": username, "password": password}, password_stdin)
    else:
        response = sign_in_by_code(anonymous, url)
    path = rest.save_context(rest.Context(url, response["token"], pem, anonymous.device))
    typer.echo(f"Signed in. Credentials stored in {path}")
    print_recovery_codes(response.get("recovery_codes", []))


def trusted_ca(url: str, ca_sha256: str, *, asks: bool) -> str:
    """Return the CA of the appliance after it was compared with the fingerprint, or confirmed.

    The CA is fetched without verification. Raises ApiError if the fingerprint differs.
    """
    given = ca_sha256.replace(":", "").lower()
    if given and not FINGERPRINT.fullmatch(given):
        raise rest.ApiError(
            f"--ca-sha256 {ca_sha256[:100]} is no SHA-256 fingerprint: it has 64 hexadecimal"
            " digits. The appliance prints its own when it starts.",
            rest.EXIT_USAGE,
        )
    found = rest.split_certificates(rest.fetch_ca(url))
    fingerprint = given or next(iter(found))
    pem = found.get(fingerprint)
    if pem is None:
        raise rest.ApiError(
            f"CA fingerprint mismatch: the appliance's CA has {next(iter(found))}. "
            "No credentials were sent.",
            rest.EXIT_DENIED,
        )
    if not ca_sha256 and not asks:
        raise rest.ApiError("--token-stdin needs --ca-sha256.", rest.EXIT_USAGE)
    if not ca_sha256 and not has_terminal():
        raise rest.ApiError(
            "There is no terminal to confirm the appliance's CA in: repeat with --ca-sha256, which"
            " the appliance prints when it starts.",
            rest.EXIT_USAGE,
        )
    if not ca_sha256:
        typer.confirm(
            f"SHA-256 fingerprint of the appliance's CA:\n  {fingerprint}\nThe appliance prints its"
            " own when it starts, after --ca-sha256. Are they equal?",
            abort=True,
        )
    return pem


def send(anonymous: rest.Api, body: dict[str, str], stdin: bool) -> dict[str, Any]:
    """Send a login, and again with each thing that the appliance asks for. Return the response."""
    while True:
        try:
            response = anonymous.request("POST", "login", body)
        except rest.ApiError as error:
            add_missing(body, error, stdin)
            continue
        if not response["must_change_password"]:
            return response
        body["new_password"] = ask_new_password(stdin)


def ask_new_password(stdin: bool = False) -> str:
    """Ask for a password twice, and again until both are equal. A script gives it once."""
    while True:
        password = ask(NEW_PASSWORD, OTHER_WAYS, reads_stdin=stdin)
        if stdin or ask(REPEATED, OTHER_WAYS) == password:
            return password
        typer.echo("The two passwords differ. Type them again.", err=True)


def add_missing(body: dict[str, str], error: rest.ApiError, stdin: bool) -> None:
    """Ask for what the refusal names and add it to the login. Raises the error if it is another."""
    asked = error.code in ("second_factor_required", "second_factor_setup_required")
    if not asked or "code" in body:
        raise error
    if error.code == "second_factor_setup_required":
        typer.echo("A second factor is required of your account.")
        print_secret(error.fields)
    if error.fields.get("must_change_password") and "new_password" not in body:
        body["new_password"] = ask_new_password(stdin)
    body["code"] = ask(CODE, OTHER_WAYS, hidden=False, reads_stdin=stdin).strip()


def given_token() -> str:
    """Return a token from standard input, without echo in a terminal. Raises ApiError if empty."""
    if has_terminal():
        token = ask("API token: ", OTHER_WAYS)
    else:
        token = sys.stdin.readline() if sys.stdin is not None else ""
    if not token.strip():
        text = "No token was read from standard input. Pass one on its first line."
        raise rest.ApiError(text, rest.EXIT_USAGE)
    return token.strip()


def store_token(context: rest.Context) -> None:
    """Store a token after the appliance has accepted it. Raises ApiError if it has not."""
    try:
        name = rest.Api(context).request("GET", "me")["username"]
    except rest.ApiError as error:
        if error.code != "unauthenticated":
            raise
        raise rest.ApiError(
            "The token from standard input is not valid: it is wrong, or it has expired or was"
            " revoked. Nothing was stored. Repeat with one of: busbar token create",
            error.exit_code,
            error.code,
        ) from None
    typer.echo(f"Signed in as {name}. Credentials stored in {rest.save_context(context)}")
