"""The `busbar` command."""

from __future__ import annotations

import getpass
import hashlib
import json
import re
import ssl
import sys
import urllib.parse
from typing import Annotated, Any

import httpx
import typer

from remoting.cli import (
    activity_commands,
    apply_command,
    node_commands,
    pool_commands,
    run_command,
    site_commands,
)
from remoting.cli import api as rest
from remoting.cli.output import Output, client, plain, show, show_one

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    help="Busbar: GPUs of many servers, over the network.",
    pretty_exceptions_enable=False,
)
allocation_app = typer.Typer(no_args_is_help=True, help="Who holds what.")
APPS = {
    "node": node_commands.node_app, "gpu": node_commands.gpu_app, "site": site_commands.site_app, "allocation": allocation_app,
    "task": activity_commands.task_app, **pool_commands.APPS,
}  # fmt: skip
for name, sub in APPS.items():
    app.add_typer(sub, name=name)
for command in (
    activity_commands.events,
    activity_commands.metrics,
    activity_commands.top,
    activity_commands.time_to_gpu,
    apply_command.apply,
    node_commands.capacity,
):
    app.command()(command)


@app.callback()
def options(
    show_api: Annotated[
        bool, typer.Option("--show-api", help="say each request as a curl command, on stderr")
    ] = False,
) -> None:
    rest.Api.told = (lambda text: typer.echo(text, err=True)) if show_api else None


@app.command()
def login(
    url: Annotated[str, typer.Argument(help="https://ADDRESS:8443")],
    username: str = "admin",
    ca_sha256: Annotated[
        str, typer.Option(help="the appliance's CA fingerprint; asked for when absent")
    ] = "",
) -> None:
    """Signs in and remembers the appliance, its CA and a token in a private file."""
    unchecked = httpx.Client(verify=False, trust_env=False, timeout=20)  # noqa: S501 - only to fetch what is then compared with a fingerprint
    pem = unchecked.get(f"{url}/api/v1/ca").json()["ca_pem"]
    found = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    if ca_sha256 and ca_sha256.replace(":", "").lower() != found:
        raise rest.ApiError(
            "The appliance's CA has another fingerprint than the one you gave; nothing was sent.",
            rest.EXIT_DENIED,
        )
    if not ca_sha256:
        typer.confirm(
            f"The appliance's CA has the SHA-256 fingerprint\n  {found}\nIs that right?", abort=True
        )
    body = {"username": username, "password": getpass.getpass(f"Password of {username}: ")}
    anonymous = rest.Api(rest.Context(url, "", pem))
    answer = anonymous.request("POST", "login", body)
    if answer["must_change_password"]:
        body["new_password"] = getpass.getpass(
            "The password is one-time. Your own, at least 12 characters: "
        )
        answer = anonymous.request("POST", "login", body)
    typer.echo(f"Signed in; kept in {rest.save_context(rest.Context(url, answer['token'], pem))}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    command: Annotated[list[str], typer.Argument(help="the program and its arguments, after --")],
    gpu_count: Annotated[
        int,
        typer.Option(
            "-n",
            "--gpus",
            min=1,
            max=16,
            help="on one node or several; NCCL works within one node only, for now",
        ),
    ] = 1,
    percent: Annotated[
        int,
        typer.Option(
            "-p",
            "--percent",
            min=0,
            max=100,
            help="of memory and compute of each GPU; 100 unless --memory is given",
        ),
    ] = 0,
    memory: Annotated[
        str,
        typer.Option(
            "-m", "--memory", help="of each GPU, such as 8GiB or 512MiB; compute in proportion"
        ),
    ] = "",
    pool: str = "default",
    project: str = "default",
    model: Annotated[str, typer.Option(help="part of the GPU model's name")] = "",
    label: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE that node or GPU must have; may be given again"),
    ] = None,
    min_driver: Annotated[str, typer.Option(help="of NVIDIA's driver, such as 550.54")] = "",
    min_cuda: Annotated[str, typer.Option(help="that the driver can do, such as 12.4")] = "",
    same_node: Annotated[bool, typer.Option("--same-node", help="all GPUs on one node")] = False,
    exclusive: Annotated[bool, typer.Option("--exclusive", help="whole GPUs")] = False,
    priority: Annotated[int, typer.Option(min=0, max=200)] = 50,
    preemptible: Annotated[
        bool, typer.Option(help="may be asked to leave for who has the better claim")
    ] = True,
    lifetime: Annotated[int | None, typer.Option(min=1, help="seconds after which it ends")] = None,
    reservation: Annotated[str, typer.Option(help="id of a reservation of the project")] = "",
    timeout: Annotated[float | None, typer.Option(help="seconds to wait for a place")] = None,
    allocation: Annotated[
        str, typer.Option(help="an allocation that you hold already; it is not released at the end")
    ] = "",
) -> None:
    """Runs a program with GPUs of the pool: busbar run -n 1 -p 25 -- python train.py"""
    wanted: dict[str, Any] = {
        "gpu_count": gpu_count, "pool": pool, "project": project, "model": model, "selector": pairs(label or []), "same_node": same_node, "priority": priority,
        "preemptible": preemptible, "compute_mode": "exclusive" if exclusive else "shared", "lifetime_seconds": lifetime, "reservation_id": reservation or None,
        "min_driver_version": min_driver, "min_cuda_version": min_cuda,
    }  # fmt: skip
    wanted |= ({"percent": percent} if percent else {}) | (
        {"memory_bytes": size_bytes(memory)} if memory else {}
    )
    raise typer.Exit(
        run_command.run(
            client(), command, wanted=wanted, timeout_seconds=timeout, allocation_id=allocation
        )
    )


def pairs(given: list[str]) -> dict[str, str]:
    """KEY=VALUE, again and again."""
    wrong = [g for g in given if "=" not in g]
    if wrong:
        raise rest.ApiError(f"{wrong[0]} is not KEY=VALUE.", rest.EXIT_USAGE)
    return dict(g.split("=", 1) for g in given)


UNITS = {
    "": 1,
    "B": 1,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
    "K": 1 << 10,
    "M": 1 << 20,
    "G": 1 << 30,
    "T": 1 << 40,
}


def size_bytes(text: str) -> int:
    """8GiB, 512M, 1.5 GiB; powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in UNITS:
        raise rest.ApiError(f"{text} is no size; write it as 8GiB or 512MiB.", rest.EXIT_USAGE)
    return int(float(match[1]) * UNITS[match[2].upper()])


@app.command()
def ps(output: Output = "table") -> None:
    """Sessions that are open now."""
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
def allocation_list(state: str = "", output: Output = "table") -> None:
    """Allocations, newest first, with why they wait."""
    show(
        client().items("allocations", **({"state": state} if state else {})),
        ALLOCATION_COLUMNS,
        output,
        ALLOCATION_WIDE,
    )


@allocation_app.command("show")
def allocation_show(
    allocation_id: str, wait: Annotated[float, typer.Option(min=0, max=60, help="seconds to wait while it changes")] = 0, output: Output = "table"
) -> None:  # fmt: skip
    """One allocation."""
    row = client().request(
        "GET", f"allocations/{allocation_id}", None, **({"wait": str(wait)} if wait else {})
    )
    show_one(row, ALLOCATION_COLUMNS, output, ALLOCATION_WIDE)


@app.command()
def explain(allocation_id: str, output: Output = "table") -> None:
    """Why an allocation waits, when it is expected to start, and what would start at once instead."""
    answer = client().request("GET", f"allocations/{allocation_id}/explanation")
    if plain(answer, output):
        return
    if answer["state"] != "waiting":
        typer.echo(f"It does not wait; it is {answer['state']}.")
        return
    typer.echo(f"{answer['rule']}: {answer['reason']}")
    typer.echo(
        f"Expected to start: {(answer['expected_start_at'] or 'not known; nobody says when they end')[:40]}"
    )
    if answer["alternatives"]:
        typer.echo("Would start at once:")
        show(
            answer["alternatives"],
            ["difference", "pool", "gpu_count", "percent", "memory_bytes"],
            output,
        )


@allocation_app.command("release")
def allocation_release(
    allocation_id: str, force: Annotated[bool, typer.Option("--force", help="without the word of a node that does not report; an administrator's")] = False
) -> None:  # fmt: skip
    """Ends an allocation and its sessions."""
    method, path = (
        ("POST", f"allocations/{allocation_id}/force-release")
        if force
        else ("DELETE", f"allocations/{allocation_id}")
    )
    typer.echo(client().request(method, path)["state"])


@app.command("api")
def any_operation(
    method: Annotated[str, typer.Argument(help="GET, POST, PATCH or DELETE")],
    path: Annotated[str, typer.Argument(help="such as nodes or pools/ID; ?name=value after it")],
    data: Annotated[str, typer.Option("-d", "--data", help="JSON that is sent")] = "",
    output: Output = "json",
) -> None:
    """Any operation of the REST API; https://APPLIANCE/api/docs lists them."""
    try:
        body = json.loads(data) if data else None
    except ValueError:
        raise rest.ApiError(f"{data[:60]} is no JSON.", rest.EXIT_USAGE) from None
    path, _, query = path.removeprefix("/api/v1/").partition("?")
    answer = client().request(
        method.upper(), path, body, **dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    )
    plain(answer, "yaml" if output == "yaml" else "json")


@app.command()
def whoami(output: Output = "table") -> None:
    """Who is signed in, and what their roles are."""
    show_one(client().request("GET", "me"), ["username", "privileges"], output)


@app.command()
def status(output: Output = "table") -> None:
    """How the appliance itself does."""
    answer = client().request("GET", "appliance")
    if not plain(answer, output):
        show(
            [{"what": name, "value": value} for name, value in answer.items()],
            ["what", "value"],
            output,
        )


def main() -> None:
    try:
        app(prog_name="busbar")
    except rest.ApiError as error:
        print(f"busbar: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
