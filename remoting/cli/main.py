"""The `busbar` command."""

from __future__ import annotations

import getpass
import hashlib
import json
import re
import ssl
import sys
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from remoting.cli import add_command, pool_commands, run_command
from remoting.cli import api as rest
from remoting.cli.output import Output, client, show

app = typer.Typer(no_args_is_help=True, add_completion=True, help="Busbar: GPUs of many servers, over the network.", pretty_exceptions_enable=False)
node_app = typer.Typer(no_args_is_help=True, help="Machines with GPUs.")
gpu_app = typer.Typer(no_args_is_help=True, help="GPUs of all nodes.")
allocation_app = typer.Typer(no_args_is_help=True, help="Who holds what.")
for name, sub in (("node", node_app), ("gpu", gpu_app), ("allocation", allocation_app)):
    app.add_typer(sub, name=name)

for name, sub in pool_commands.APPS.items():
    app.add_typer(sub, name=name)


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
    percent: Annotated[int, typer.Option("-p", "--percent", min=0, max=100, help="of memory and compute of each GPU; 100 unless --memory is given")] = 0,
    memory: Annotated[str, typer.Option("-m", "--memory", help="of each GPU, such as 8GiB or 512MiB; compute in proportion")] = "",
    pool: str = "default",
    project: str = "default",
    model: Annotated[str, typer.Option(help="part of the GPU model's name")] = "",
    label: Annotated[list[str] | None, typer.Option(help="KEY=VALUE that node or GPU must have; may be given again")] = None,
    same_node: Annotated[bool, typer.Option("--same-node", help="all GPUs on one node")] = False,
    exclusive: Annotated[bool, typer.Option("--exclusive", help="whole GPUs")] = False,
    priority: Annotated[int, typer.Option(min=0, max=200)] = 50,
    preemptible: Annotated[bool, typer.Option(help="may be asked to leave for who has the better claim")] = True,
    lifetime: Annotated[int | None, typer.Option(min=1, help="seconds after which it ends")] = None,
    reservation: Annotated[str, typer.Option(help="id of a reservation of the project")] = "",
    timeout: Annotated[float | None, typer.Option(help="seconds to wait for a place")] = None,
    allocation: Annotated[str, typer.Option(help="an allocation that you hold already; it is not released at the end")] = "",
) -> None:
    """Runs a program with GPUs of the pool: busbar run -n 1 -p 25 -- python train.py"""
    wanted: dict[str, Any] = {
        "gpu_count": gpu_count, "pool": pool, "project": project, "model": model, "selector": pairs(label or []), "same_node": same_node, "priority": priority,
        "preemptible": preemptible, "compute_mode": "exclusive" if exclusive else "shared", "lifetime_seconds": lifetime, "reservation_id": reservation or None,
    }  # fmt: skip
    wanted |= ({"percent": percent} if percent else {}) | ({"memory_bytes": size_bytes(memory)} if memory else {})
    raise typer.Exit(run_command.run(client(), command, wanted=wanted, timeout_seconds=timeout, allocation_id=allocation))


def pairs(given: list[str]) -> dict[str, str]:
    """KEY=VALUE, again and again."""
    wrong = [g for g in given if "=" not in g]
    if wrong:
        raise rest.ApiError(f"{wrong[0]} is not KEY=VALUE.", rest.EXIT_USAGE)
    return dict(g.split("=", 1) for g in given)


UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def size_bytes(text: str) -> int:
    """8GiB, 512M, 1.5 GiB; powers of 1024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in UNITS:
        raise rest.ApiError(f"{text} is no size; write it as 8GiB or 512MiB.", rest.EXIT_USAGE)
    return int(float(match[1]) * UNITS[match[2].upper()])


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


@node_app.command("maintenance")
def node_maintenance(name: str, grace: Annotated[float, typer.Option(min=0, help="seconds of notice for allocations there")] = 300.0) -> None:
    """Empties a node; it gets nothing new until exit-maintenance."""
    api = client()
    task = api.request("POST", f"nodes/{api.named('nodes', name)['id']}/enter-maintenance", {"grace_seconds": grace})
    typer.echo(task["message"] if task["state"] == "running" else f"Node {name} is in maintenance mode.")


@node_app.command("exit-maintenance")
def node_exit_maintenance(name: str) -> None:
    """Back to work; what had notice and is still there may stay."""
    api = client()
    typer.echo(api.request("POST", f"nodes/{api.named('nodes', name)['id']}/exit-maintenance")["state"])


@node_app.command("blockers")
def node_blockers(name: str, output: Output = "table") -> None:
    """Allocations that stand in the way of a node's maintenance or removal."""
    api = client()
    show(api.items(f"nodes/{api.named('nodes', name)['id']}/blockers"), ["id", "name", "owner", "project", "state", "evict_at", "end_reason"], output)


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


@allocation_app.command("list")
def allocation_list(output: Output = "table") -> None:
    """Allocations, newest first, with why they wait."""
    show(client().items("allocations"), ["id", "name", "state", "owner", "gpu_count", "percent", "waiting_reason", "created_at"], output)


@app.command()
def explain(allocation_id: str, output: Output = "table") -> None:
    """Why an allocation waits, when it is expected to start, and what would start at once instead."""
    answer = client().request("GET", f"allocations/{allocation_id}/explanation")
    if output == "json":
        typer.echo(json.dumps(answer, indent=2))
        return
    if answer["state"] != "waiting":
        typer.echo(f"It does not wait; it is {answer['state']}.")
        return
    typer.echo(f"{answer['rule']}: {answer['reason']}")
    typer.echo(f"Expected to start: {(answer['expected_start_at'] or 'not known; nobody says when they end')[:40]}")
    if answer["alternatives"]:
        typer.echo("Would start at once:")
        show(answer["alternatives"], ["difference", "pool", "gpu_count", "percent", "memory_bytes"], output)


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
