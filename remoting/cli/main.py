"""The `busbar` command."""

from __future__ import annotations

import getpass
import hashlib
import json
import ssl
import sys
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from remoting.cli import add_command, run_command
from remoting.cli import api as rest

app = typer.Typer(no_args_is_help=True, add_completion=True, help="Busbar: GPUs of many servers, over the network.", pretty_exceptions_enable=False)
node_app = typer.Typer(no_args_is_help=True, help="Machines with GPUs.")
gpu_app = typer.Typer(no_args_is_help=True, help="GPUs of all nodes.")
pool_app = typer.Typer(no_args_is_help=True, help="Named sets of GPUs.")
allocation_app = typer.Typer(no_args_is_help=True, help="Who holds what.")
for name, sub in (("node", node_app), ("gpu", gpu_app), ("pool", pool_app), ("allocation", allocation_app)):
    app.add_typer(sub, name=name)

WIDE = 240
"""Columns of a table that goes into a pipe: nothing is cut."""

Output = Annotated[str, typer.Option("-o", "--output", help="table or json")]


def client() -> rest.Api:
    return rest.Api(rest.load_context())


def show(rows: list[dict[str, Any]], columns: list[str], output: str) -> None:
    if output == "json":
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None, header_style="bold")
    for c in columns:
        heading = c.split(".")[-1].removesuffix("_bytes").replace("_", " ")
        table.add_column(heading, no_wrap=c in ("id", "uuid"), overflow="fold")
    for row in rows:
        table.add_row(*(cell(row, c) for c in columns))
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)


def cell(row: dict[str, Any], column: str) -> str:
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "-"
    if column.endswith("_at"):
        return str(value)[:19].replace("T", " ")
    if column.endswith("_bytes"):
        return f"{int(value) / (1 << 30):.2f} GiB"
    return str(value)


@app.command()
def login(
    url: Annotated[str, typer.Argument(help="https://ADDRESS:8443")],
    username: str = "admin",
    ca_sha256: Annotated[str, typer.Option(help="the appliance's CA fingerprint; asked for when absent")] = "",
) -> None:
    """Signs in and remembers the appliance, its CA and a token in a private file."""
    unchecked = httpx.Client(verify=False, trust_env=False, timeout=20)  # noqa: S501 - only to fetch what is then compared with a fingerprint
    pem = unchecked.get(f"{url}/api/v1/ca").json()["ca_pem"]
    found = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    if ca_sha256 and ca_sha256.replace(":", "").lower() != found:
        raise rest.ApiError("The appliance's CA has another fingerprint than the one you gave; nothing was sent.", rest.EXIT_DENIED)
    if not ca_sha256:
        typer.confirm(f"The appliance's CA has the SHA-256 fingerprint\n  {found}\nIs that right?", abort=True)
    body = {"username": username, "password": getpass.getpass(f"Password of {username}: ")}
    anonymous = rest.Api(rest.Context(url, "", pem))
    answer = anonymous.request("POST", "login", body)
    if answer["must_change_password"]:
        body["new_password"] = getpass.getpass("The password is one-time. Your own, at least 12 characters: ")
        answer = anonymous.request("POST", "login", body)
    typer.echo(f"Signed in; kept in {rest.save_context(rest.Context(url, answer['token'], pem))}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    command: Annotated[list[str], typer.Argument(help="the program and its arguments, after --")],
    gpu_count: Annotated[int, typer.Option("-n", "--gpus", min=1, max=16, help="on one node or several; NCCL works within one node only, for now")] = 1,
    percent: Annotated[int, typer.Option("-p", "--percent", min=1, max=100, help="of memory and compute of each GPU")] = 100,
    pool: str = "default",
    project: str = "default",
    timeout: Annotated[float | None, typer.Option(help="seconds to wait for a place")] = None,
    allocation: Annotated[str, typer.Option(help="an allocation that you hold already; it is not released at the end")] = "",
) -> None:
    """Runs a program with GPUs of the pool: busbar run -n 1 -p 25 -- python train.py"""
    raise typer.Exit(
        run_command.run(client(), command, gpu_count=gpu_count, percent=percent, pool=pool, project=project, timeout_seconds=timeout, allocation_id=allocation)
    )


@app.command()
def ps(output: Output = "table") -> None:
    """Sessions that are open now."""
    show(client().items("sessions", state="running"), ["id", "program", "client_address", "node", "memory_bytes", "launches", "opened_at"], output)


@app.command()
def events(output: Output = "table") -> None:
    """What happened, newest first."""
    show(client().request("GET", "events", limit="100")["items"], ["created_at", "kind", "actor", "message"], output)


@node_app.command("list")
def node_list(output: Output = "table") -> None:
    """All nodes."""
    show(client().items("nodes"), ["name", "state", "reachable", "driver_version", "agent_version", "id"], output)


@node_app.command("add")
def node_add(
    destination: Annotated[str, typer.Argument(help="ssh://USER@HOST[:PORT]")],
    key: Annotated[Path | None, typer.Option(help="private key file; otherwise a password is asked for")] = None,
    agent: Annotated[bool, typer.Option(help="use the SSH agent of the appliance's process")] = False,
    software_gpus: Annotated[int, typer.Option(min=0, max=16, help="for a machine without NVIDIA's driver")] = 0,
    address: Annotated[list[str] | None, typer.Option(help="under which clients reach the node; may be given again")] = None,
    host_key_sha256: Annotated[str, typer.Option(help="confirms the machine's key; asked for when absent")] = "",
) -> None:
    """Registers a machine over SSH: its key is confirmed, its state checked, the agent installed."""
    add_command.add(client(), destination, key=key, agent=agent, software_gpus=software_gpus, addresses=address or [], host_key_sha256=host_key_sha256)


@node_app.command("remove")
def node_remove(name: str) -> None:
    """Takes a node out of the pool; refused while something runs there."""
    api = client()
    api.request("DELETE", f"nodes/{api.named('nodes', name)['id']}")
    typer.echo(f"Node {name} was removed. On the machine itself: sudo /opt/busbar/busbar-node remove")


@node_app.command("cordon")
def node_cordon(name: str) -> None:
    """Present allocations stay, new ones do not come."""
    api = client()
    typer.echo(api.request("POST", f"nodes/{api.named('nodes', name)['id']}/cordon")["state"])


@node_app.command("uncordon")
def node_uncordon(name: str) -> None:
    """New allocations may come again."""
    api = client()
    typer.echo(api.request("POST", f"nodes/{api.named('nodes', name)['id']}/uncordon")["state"])


@node_app.command("forget-key")
def node_forget_key(address: str) -> None:
    """Forgets the SSH key of a machine that was set up anew."""
    api = client()
    for held in api.items("ssh-host-keys"):
        if held["address"] == address:
            api.request("DELETE", f"ssh-host-keys/{held['id']}")
            typer.echo(f"Forgot SHA256:{held['sha256']} of {address}:{held['port']}.")


@app.command("tasks")
def task_list(output: Output = "table") -> None:
    """What is being done, newest first."""
    show(
        client().request("GET", "tasks", limit="50")["items"],
        ["created_at", "kind", "state", "progress_percent", "initiator", "message", "error.detail"],
        output,
    )


@node_app.command("token")
def node_token() -> None:
    """Makes an enrolment token: single use, 15 minutes."""
    typer.echo(client().request("POST", "enrolment-tokens")["token"])


@gpu_app.command("list")
def gpu_list(output: Output = "table") -> None:
    """All GPUs, with what they do now."""
    show(
        sorted(client().items("gpus"), key=lambda g: (g["node"], g["index"])),
        ["node", "index", "model", "memory_bytes", "metrics.memory_used_bytes", "metrics.utilisation_percent", "pool", "uuid"],
        output,
    )


@pool_app.command("list")
def pool_list(output: Output = "table") -> None:
    """All pools."""
    show(client().items("pools"), ["name", "id"], output)


@allocation_app.command("list")
def allocation_list(output: Output = "table") -> None:
    """Allocations, newest first, with why they wait."""
    show(client().items("allocations"), ["id", "name", "state", "owner", "gpu_count", "percent", "waiting_reason", "created_at"], output)


@allocation_app.command("release")
def allocation_release(allocation_id: str) -> None:
    """Ends an allocation and its sessions."""
    typer.echo(client().request("DELETE", f"allocations/{allocation_id}")["state"])


def main() -> None:
    try:
        app(prog_name="busbar")
    except rest.ApiError as error:
        print(f"busbar: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
