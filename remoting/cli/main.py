"""The `busbar` command."""

from __future__ import annotations

import getpass
import json
import sys
import urllib.parse
from typing import Annotated, Any

import typer

from nodes.top_level import exit_status_of
from nodes.version import AGENT_VERSION
from remoting.cli import (
    activity_commands,
    apply_command,
    audit_commands,
    node_commands,
    people_commands,
    pool_commands,
    project_commands,
    rotation_commands,
    run_command,
    site_commands,
    token_commands,
)
from remoting.cli import api as rest
from remoting.cli.amounts import MemorySize, WaitOption, parse_duration, parse_whole_seconds
from remoting.cli.output import Output, client, print_structured, show, show_one

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    help="Busbar pools NVIDIA GPUs over the network.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
allocation_app = typer.Typer(no_args_is_help=True, help="List, show and release allocations.")
APPS = {
    "node": node_commands.node_app,
    "gpu": node_commands.gpu_app,
    "site": site_commands.site_app,
    "allocation": allocation_app,
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
    node_commands.capacity,
    token_commands.logout,
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
def run(
    command: Annotated[list[str], typer.Argument(help="Program and its arguments, after --.")],
    gpu_count: Annotated[
        int,
        typer.Option(
            "-n",
            "--gpus",
            min=1,
            max=16,
            help="Number of GPUs, on one or several nodes. NCCL works within one node only.",
        ),
    ] = 1,
    percent: Annotated[
        int,
        typer.Option(
            "-p",
            "--percent",
            min=0,
            max=100,
            help="Share of memory and compute of each GPU. Default: 100 without --memory.",
        ),
    ] = 0,
    memory: MemorySize = None,
    pool: Annotated[str, typer.Option(help="Name of the pool.")] = "default",
    project: Annotated[str, typer.Option(help="Name of the project.")] = "default",
    model: Annotated[str, typer.Option(help="Part of the GPU model's name.")] = "",
    label: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE label required on node or GPU. Can be repeated."),
    ] = None,
    min_driver: Annotated[
        str, typer.Option(help="Minimum version of NVIDIA's driver, for example 550.54.")
    ] = "",
    min_cuda: Annotated[
        str, typer.Option(help="Minimum CUDA version of the driver, for example 12.4.")
    ] = "",
    same_node: Annotated[
        bool, typer.Option("--same-node", help="Place all GPUs on one node.")
    ] = False,
    exclusive: Annotated[bool, typer.Option("--exclusive", help="Allocate whole GPUs.")] = False,
    priority: Annotated[
        int, typer.Option(min=0, max=200, help="Higher values are placed first.")
    ] = 50,
    preemptible: Annotated[bool, typer.Option(help="The allocation may be preempted.")] = True,
    lifetime: Annotated[
        int | None,
        typer.Option(
            parser=parse_whole_seconds,
            metavar="DURATION",
            help="Time after which the allocation ends, for example 8h or 90m.",
        ),
    ] = None,
    reservation: Annotated[str, typer.Option(help="Id of a reservation of the project.")] = "",
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="Maximum time to wait in the queue, for example 30s or 2h.",
        ),
    ] = None,
    allow_pending: Annotated[
        bool,
        typer.Option("--allow-pending", help="Wait also if no GPUs or limits permit the request."),
    ] = False,
    allocation: Annotated[
        str, typer.Option(help="Id of an existing allocation. It is not released at the end.")
    ] = "",
) -> None:
    """Run a program on GPUs of a pool: busbar run -n 1 -p 25 -- python train.py"""
    request: dict[str, Any] = {
        "gpu_count": gpu_count,
        "pool": pool,
        "project": project,
        "model": model,
        "selector": parse_labels(label or []),
        "same_node": same_node,
        "priority": priority,
        "preemptible": preemptible,
        "compute_mode": "exclusive" if exclusive else "shared",
        "lifetime_seconds": lifetime,
        "reservation_id": reservation or None,
        "min_driver_version": min_driver,
        "min_cuda_version": min_cuda,
        "allow_pending": allow_pending,
    }
    request |= ({"percent": percent} if percent else {}) | (
        {"memory_bytes": memory} if memory else {}
    )
    raise typer.Exit(
        run_command.run(
            client(), command, request=request, timeout_seconds=timeout, allocation_id=allocation
        )
    )


def parse_labels(arguments: list[str]) -> dict[str, str]:
    """Return the labels of KEY=VALUE arguments. Raises ApiError for any other form."""
    for argument in arguments:
        if "=" not in argument:
            raise rest.ApiError(f"Invalid label {argument}; expected KEY=VALUE.", rest.EXIT_USAGE)
    return dict(argument.split("=", 1) for argument in arguments)


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
    "memory_bytes",
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
    show(
        client().items("allocations", **({"state": state} if state else {})),
        ALLOCATION_COLUMNS,
        output,
        ALLOCATION_WIDE,
    )


@allocation_app.command("show")
def allocation_show(
    allocation_id: str,
    wait: WaitOption = 0,
    output: Output = "table",
) -> None:
    """Show an allocation."""
    row = client().request(
        "GET", f"allocations/{allocation_id}", None, **({"wait": str(wait)} if wait else {})
    )
    show_one(row, ALLOCATION_COLUMNS, output, ALLOCATION_WIDE)


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


@allocation_app.command("release")
def allocation_release(
    allocation_id: str,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Release without confirmation from an unreachable node. Requires administrator.",
        ),
    ] = False,
) -> None:
    """End an allocation and its sessions."""
    method, path = (
        ("POST", f"allocations/{allocation_id}/force-release")
        if force
        else ("DELETE", f"allocations/{allocation_id}")
    )
    typer.echo(client().request(method, path)["state"])


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
            {"privilege": p["name"]} | {**binding, "id": None}
            for p in response["privileges"]
            for binding in p["bindings"]
        ]
        show(rows, ["privilege", "role", "user", "group", "project", "department"], output)


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
