"""Commands without a group: the caller, the appliance, its sessions and any REST operation."""

from __future__ import annotations

import json
import urllib.parse
from typing import Annotated

import typer

from remoting.cli import api as rest
from remoting.cli import apply_command
from remoting.cli.allocation_sizes import with_size
from remoting.cli.gpu_commands import find_gpu
from remoting.cli.object_ids import WHOLE_ID, id_of
from remoting.cli.output import Output, cell, client, print_structured, show, show_one
from remoting.cli.people_commands import with_place

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def ps(output: Output = "table") -> None:
    """List open sessions."""
    columns = ["id", "program", "client_address", "node", "memory_bytes", "launches", "opened_at"]
    show(
        client().items("sessions", state="running"),
        columns,
        output,
        ["allocation_id", "bytes_in", "bytes_out", "refused_calls"],
    )


def explain(
    allocation: Annotated[str, typer.Argument(help="Id or name of an allocation, or `apply`.")],
    output: Output = "table",
) -> None:
    """Show why an allocation or its resize is queued, the expected start and alternatives.

    `busbar explain apply` prints the JSON schema of the documents of `busbar apply`.
    """
    if allocation == "apply":
        return apply_command.print_schema()
    api = client()
    path = f"allocations/{id_of(api, 'allocations', allocation)}/explanation"
    explanation = api.request("GET", path)
    if print_structured(explanation, output):
        return
    if not explanation["reason"]:
        typer.echo(f"The allocation is not queued. State: {explanation['state']}")
        return
    typer.echo(": ".join(filter(None, (explanation["rule"], explanation["reason"]))))
    at = explanation["expected_start_at"] and f"{cell(explanation, 'expected_start_at')} UTC"
    why = explanation.get("expected_start_reason", "no end time is set")  # older appliances
    typer.echo(f"Expected to start: {at or f'unknown ({why})'}")
    if explanation["alternatives"]:
        typer.echo("Alternatives that would start immediately:")
        show(
            [with_size(row) for row in explanation["alternatives"]],
            ["difference", "pool", "gpu_count", "percent", "memory"],
            output,
        )


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
    if method.upper() not in METHODS:
        raise rest.ApiError(f"{method[:60]} is none of {', '.join(METHODS)}.", rest.EXIT_USAGE)
    path, _, query = path.removeprefix("/api/v1/").partition("?")
    response = client().request(
        method.upper(), path, body, **dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    )
    print_structured(response, "yaml" if output == "yaml" else "json")


def whoami(output: Output = "table") -> None:
    """Show the signed-in user and their privileges."""
    show_one(client().request("GET", "me"), ["username", "privileges"], output)


def access(
    user: Annotated[str, typer.Option(help="Name of a user; else yours.")] = "",
    place: Annotated[
        str,
        typer.Option(
            "--object",
            help="KIND/NAME or KIND/ID, for example projects/physics; else the appliance.",
        ),
    ] = "",
    output: Output = "table",
) -> None:
    """Show what a user may do, and through which role bindings.

    Without --object these are the privileges on the whole appliance, and the roles at objects.
    """
    api = client()
    query = ({"user": user} if user else {}) | ({"object": with_id(api, place)} if place else {})
    response = api.request("GET", "access", None, **query)
    if print_structured(response, output):
        return
    rows = [
        {"privilege": p["name"]} | with_place(binding)
        for p in response["privileges"]
        for binding in p["bindings"]
    ]
    if rows:
        show(rows, ["privilege", "role", "user", "group", "place"], output)
    else:
        typer.echo(f"No privileges {'there' if place else 'on the whole appliance'}.")
    if response.get("elsewhere"):  # older appliances do not send it
        typer.echo("Roles at objects; --object shows what they permit there:")
        show(
            [with_place(b) for b in response["elsewhere"]],
            ["role", "user", "group", "place"],
            output,
        )


def with_id(api: rest.Api, place: str) -> str:
    """Return KIND/ID of the object KIND/NAME. Raises ApiError if there is no such object."""
    kind, _, name = place.partition("/")
    if WHOLE_ID.fullmatch(name):
        return place
    if kind in ("allocations", "projects"):
        return f"{kind}/{id_of(api, kind, name)}"
    if kind == "gpus":
        return f"{kind}/{find_gpu(api, name)['id']}"
    if kind in ("departments", "nodes", "pools", "sites"):
        return f"{kind}/{api.find_by_name(kind, name)['id']}"
    return place


def status(output: Output = "table") -> None:
    """Show appliance status."""
    response = client().request("GET", "appliance")
    if not print_structured(response, output):
        rows = [{"name": name, "value": value} for name, value in response.items()]
        show(rows, ["name", "value"], output)
