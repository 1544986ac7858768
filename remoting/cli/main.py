"""The `busbar` command."""

from __future__ import annotations

import getpass
import json
import sys
import urllib.parse
from typing import Annotated

import typer

from nodes.top_level import exit_status_of
from nodes.version import AGENT_VERSION
from remoting.cli import (
    activity_commands,
    allocation_commands,
    apply_command,
    audit_commands,
    gpu_commands,
    node_commands,
    people_commands,
    pool_commands,
    project_commands,
    rotation_commands,
    run_command,
    runs_commands,
    site_commands,
    token_commands,
)
from remoting.cli import api as rest
from remoting.cli.allocation_request import AllocationRequest, DryRun, print_outcome, takes_request
from remoting.cli.amounts import QueueTimeout
from remoting.cli.output import Output, client, print_structured, show, show_one

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    help="Busbar pools NVIDIA GPUs over the network.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
APPS = {
    "node": node_commands.node_app,
    "gpu": gpu_commands.gpu_app,
    "site": site_commands.site_app,
    "allocation": allocation_commands.allocation_app,
    "task": activity_commands.task_app,
    "audit": audit_commands.audit_app,
    "token": token_commands.token_app,
    **rotation_commands.APPS,
    **pool_commands.APPS,
    **project_commands.APPS,
    **people_commands.APPS,
}
for name, sub in APPS.items():
    app.add_typer(sub, name=name)
for command in (
    activity_commands.events,
    activity_commands.metrics,
    activity_commands.top,
    activity_commands.time_to_gpu,
    apply_command.apply,
    gpu_commands.capacity,
    token_commands.logout,
    runs_commands.runs,
    runs_commands.logs,
    runs_commands.stop,
):
    app.command()(command)


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"busbar {AGENT_VERSION}")
        raise typer.Exit


@app.callback()
def options(
    show_api: Annotated[
        bool, typer.Option("--show-api", help="Print each request to stderr as a curl command.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Pool NVIDIA GPUs over the network."""
    rest.Api.trace = (lambda text: typer.echo(text, err=True)) if show_api else None


@app.command()
def login(
    url: Annotated[str, typer.Argument(help="URL of the appliance: https://ADDRESS:8443.")],
    username: Annotated[str, typer.Option(help="Name of the user.")] = "admin",
    ca_sha256: Annotated[
        str,
        typer.Option(help="SHA-256 fingerprint of the appliance's CA. Prompts if not given."),
    ] = "",
    token_stdin: Annotated[
        bool,
        typer.Option("--token-stdin", help="Read an API token from standard input. Asks nothing."),
    ] = False,
) -> None:
    """Sign in. Stores the URL, the CA and a token in a private file."""
    # The CA is fetched without verification and then compared with the fingerprint.
    found = rest.split_certificates(rest.fetch_ca(url))
    fingerprint = ca_sha256.replace(":", "").lower() or next(iter(found))
    pem = found.get(fingerprint)
    if pem is None:
        raise rest.ApiError(
            f"CA fingerprint mismatch: the appliance's CA has {next(iter(found))}. "
            "No credentials were sent.",
            rest.EXIT_DENIED,
        )
    if token_stdin:
        if not ca_sha256:
            raise rest.ApiError("--token-stdin needs --ca-sha256.", rest.EXIT_USAGE)
        store_token(rest.Context(url, sys.stdin.readline().strip(), pem))
        return
    if not ca_sha256:
        typer.confirm(
            f"SHA-256 fingerprint of the appliance's CA:\n  {fingerprint}\nTrust this CA?",
            abort=True,
        )
    body = {"username": username, "password": getpass.getpass(f"Password of {username}: ")}
    anonymous = rest.Api(rest.Context(url, "", pem, rest.known_device(url)))
    response = anonymous.request("POST", "login", body)
    if response["must_change_password"]:
        body["new_password"] = getpass.getpass(
            "This password is valid once. New password, at least 12 characters: "
        )
        response = anonymous.request("POST", "login", body)
    path = rest.save_context(rest.Context(url, response["token"], pem, anonymous.device))
    typer.echo(f"Signed in. Credentials stored in {path}")


def store_token(context: rest.Context) -> None:
    """Store a token after the appliance has accepted it."""
    name = rest.Api(context).request("GET", "me")["username"]
    typer.echo(f"Signed in as {name}. Credentials stored in {rest.save_context(context)}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@takes_request
def run(
    command: Annotated[list[str], typer.Argument(help="Program and its arguments, after --.")],
    request: AllocationRequest,
    timeout: QueueTimeout = None,
    allocation: Annotated[
        str, typer.Option(help="Id of an existing allocation. It is not released at the end.")
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
    if detach:
        started = run_command.run_detached(
            client(), command, request=request.body(), timeout_seconds=timeout
        )
        typer.echo(started.id)
        return
    raise typer.Exit(
        run_command.run(
            client(),
            command,
            request=request.body(),
            timeout_seconds=timeout,
            allocation_id=allocation,
        )
    )


@app.command()
def ps(output: Output = "table") -> None:
    """List open sessions."""
    columns = ["id", "program", "client_address", "node", "memory_bytes", "launches", "opened_at"]
    show(
        client().items("sessions", state="running"),
        columns,
        output,
        ["allocation_id", "bytes_in", "bytes_out", "refused_calls"],
    )


@app.command()
def explain(allocation_id: str, output: Output = "table") -> None:
    """Show the reason why an allocation is queued, its expected start and alternatives."""
    explanation = client().request("GET", f"allocations/{allocation_id}/explanation")
    if print_structured(explanation, output):
        return
    if explanation["state"] != "queued":
        typer.echo(f"The allocation is not queued. State: {explanation['state']}")
        return
    typer.echo(f"{explanation['rule']}: {explanation['reason']}")
    expected = (explanation["expected_start_at"] or "unknown (no end time is set)")[:40]
    typer.echo(f"Expected to start: {expected}")
    if explanation["alternatives"]:
        typer.echo("Alternatives that would start immediately:")
        show(
            explanation["alternatives"],
            ["difference", "pool", "gpu_count", "percent", "memory_bytes"],
            output,
        )


@app.command("api")
def any_operation(
    method: Annotated[str, typer.Argument(help="GET, POST, PATCH or DELETE.")],
    path: Annotated[
        str, typer.Argument(help="For example nodes or pools/ID, with an optional ?name=value.")
    ],
    data: Annotated[str, typer.Option("-d", "--data", help="Request body as JSON.")] = "",
    output: Output = "json",
) -> None:
    """Send a request to the REST API. https://APPLIANCE/api/docs lists all operations."""
    try:
        body = json.loads(data) if data else None
    except ValueError:
        raise rest.ApiError(f"Invalid JSON: {data[:60]}", rest.EXIT_USAGE) from None
    path, _, query = path.removeprefix("/api/v1/").partition("?")
    response = client().request(
        method.upper(), path, body, **dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    )
    print_structured(response, "yaml" if output == "yaml" else "json")


@app.command()
def whoami(output: Output = "table") -> None:
    """Show the signed-in user and their privileges."""
    show_one(client().request("GET", "me"), ["username", "privileges"], output)


@app.command()
def access(
    user: Annotated[str, typer.Option(help="Name of a user; else yours.")] = "",
    place: Annotated[
        str,
        typer.Option("--object", help="KIND/ID, for example projects/ID; else the appliance."),
    ] = "",
    output: Output = "table",
) -> None:
    """Show what a user may do, and through which role bindings."""
    query = ({"user": user} if user else {}) | ({"object": place} if place else {})
    response = client().request("GET", "access", None, **query)
    if not print_structured(response, output):
        rows = [
            {"privilege": p["name"]} | people_commands.with_place(binding)
            for p in response["privileges"]
            for binding in p["bindings"]
        ]
        show(rows, ["privilege", "role", "user", "group", "place"], output)


@app.command()
def status(output: Output = "table") -> None:
    """Show appliance status."""
    response = client().request("GET", "appliance")
    if not print_structured(response, output):
        rows = [{"name": name, "value": value} for name, value in response.items()]
        show(rows, ["name", "value"], output)


def main() -> None:
    """Run the command line and exit with the code of the error, if any."""
    sys.exit(exit_status_of("busbar", lambda: app(prog_name="busbar"), rest.ApiError))


if __name__ == "__main__":
    main()
