"""The commands `busbar node`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from remoting.cli import add_command
from remoting.cli.amounts import parse_duration
from remoting.cli.completion import complete_names
from remoting.cli.confirmation import Yes, confirm_deletion
from remoting.cli.field_options import field_options
from remoting.cli.label_options import LabelFilter, Labels, apply_label_changes
from remoting.cli.object_ids import path_of
from remoting.cli.output import Output, client, show, show_one
from remoting.cli.prompts import PasswordStdin

node_app = typer.Typer(no_args_is_help=True, help="Manage nodes: servers with GPUs.")

NodeName = Annotated[str, typer.Argument(autocompletion=complete_names("nodes"))]
NODE_COLUMNS = [
    "name",
    "state",
    "reachable",
    "driver_version",
    "cuda_version",
    "agent_version",
    "id",
]
NODE_WIDE = [
    "locked_at",
    "lock_reason",
    "site",
    "notes",
    "agent_outdated",
    "labels",
    "operating_system",
    "last_seen_at",
    "generation",
    "applied_generation",
]


@node_app.command("list")
def node_list(labels: LabelFilter = "", output: Output = "table") -> None:
    """List nodes."""
    rows = client().items("nodes", **({"labels": labels} if labels else {}))
    show(rows, NODE_COLUMNS, output, NODE_WIDE)


@node_app.command("add")
def node_add(
    destination: Annotated[str, typer.Argument(help="ssh://USER@HOST[:PORT]")],
    key: Annotated[
        Path | None, typer.Option(help="Private key file. Prompts for a password if not given.")
    ] = None,
    agent: Annotated[
        bool, typer.Option(help="Use the SSH agent of the appliance's process.")
    ] = False,
    software_gpus: Annotated[
        int,
        typer.Option(min=0, max=16, help="Number of software GPUs, without NVIDIA's driver."),
    ] = 0,
    address: Annotated[
        list[str] | None,
        typer.Option(help="Address at which clients reach the node. Can be repeated."),
    ] = None,
    host_key_sha256: Annotated[
        str, typer.Option(help="SHA-256 fingerprint of the host key. Prompts if not given.")
    ] = "",
    password_stdin: PasswordStdin = False,
) -> None:
    """Enrol a machine over SSH: confirm its host key, run preflight checks, install the agent."""
    add_command.add(
        client(),
        destination,
        key=key,
        agent=agent,
        software_gpus=software_gpus,
        addresses=address or [],
        host_key_sha256=host_key_sha256,
        password_stdin=password_stdin,
    )


@node_app.command("remove")
def node_remove(name: NodeName, yes: Yes = False) -> None:
    """Remove a node from the inventory. Fails while allocations use it."""
    api = client()
    path = path_of(api, "nodes", name)
    gpus = sum(row["node"] == name for row in api.items("gpus"))
    confirm_deletion(f"node {name}", f"its certificates, labels, notes and {gpus} GPUs", yes)
    api.request("DELETE", path)
    typer.echo(
        f"Node {name} removed. Uninstall the agent there: sudo /opt/busbar/busbar-node remove"
    )


@node_app.command("label")
def node_label(name: NodeName, labels: Labels, output: Output = "table") -> None:
    """Set and remove labels of a node. Requests select nodes by label."""
    api = client()
    node = api.find_by_name("nodes", name)
    changes = {"labels": apply_label_changes(node["labels"], labels)}
    show_one(
        api.request("PATCH", f"nodes/{node['id']}", changes),
        ["name", "labels"],
        output,
    )


@node_app.command("set")
@field_options("nodes")
def node_set(
    name: NodeName,
    network: Annotated[
        list[str] | None,
        typer.Option(help="ADDRESS=NAME of a network that pools can prefer. Can be repeated."),
    ] = None,
    output: Output = "table",
    **values: Any,
) -> None:
    """Change a node. Options that are not given keep their values."""
    api = client()
    if network:
        values["networks"] = dict(one.rpartition("=")[::2] for one in network)
    row = api.request("PATCH", path_of(api, "nodes", name), values)
    show_one(row, ["name", "site", "notes"], output)


@node_app.command("cordon")
def node_cordon(name: NodeName) -> None:
    """Exclude a node from placement. Existing allocations stay."""
    api = client()
    typer.echo(api.request("POST", f"{path_of(api, 'nodes', name)}/cordon")["state"])


@node_app.command("uncordon")
def node_uncordon(name: NodeName) -> None:
    """Include a cordoned node in placement again."""
    api = client()
    typer.echo(api.request("POST", f"{path_of(api, 'nodes', name)}/uncordon")["state"])


@node_app.command("unlock")
def node_unlock(name: NodeName) -> None:
    """Unlock a node whose identity was copied, after the copy has been removed."""
    api = client()
    api.request("POST", f"{path_of(api, 'nodes', name)}/unlock")
    typer.echo(f"Node {name} is unlocked.")


@node_app.command("maintenance")
def node_maintenance(
    name: NodeName,
    grace: Annotated[
        float,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="Time until allocations on the node end, for example 10m.",
        ),
    ] = 300.0,
) -> None:
    """Drain a node. It receives no allocations until exit-maintenance."""
    api = client()
    task = api.request(
        "POST",
        f"{path_of(api, 'nodes', name)}/enter-maintenance",
        {"grace_seconds": grace},
    )
    typer.echo(
        task["message"] if task["state"] == "running" else f"Node {name} is in maintenance mode."
    )


@node_app.command("exit-maintenance")
def node_exit_maintenance(name: NodeName) -> None:
    """End maintenance of a node. Allocations that have not ended yet are kept."""
    api = client()
    typer.echo(api.request("POST", f"{path_of(api, 'nodes', name)}/exit-maintenance")["state"])


@node_app.command("blockers")
def node_blockers(name: NodeName, output: Output = "table") -> None:
    """List allocations that block maintenance or removal of a node."""
    api = client()
    show(
        api.items(f"{path_of(api, 'nodes', name)}/blockers"),
        ["id", "name", "owner", "project", "state", "evict_at", "end_reason"],
        output,
    )


@node_app.command("keys")
def node_keys(output: Output = "table") -> None:
    """List confirmed SSH host keys."""
    show(
        client().items("ssh-host-keys"),
        ["address", "port", "key_type", "sha256", "confirmed_by", "created_at"],
        output,
    )


@node_app.command("forget-key")
def node_forget_key(address: str) -> None:
    """Delete the confirmed SSH host keys of a machine, for example after a reinstallation."""
    api = client()
    for key in api.items("ssh-host-keys"):
        if key["address"] == address:
            api.request("DELETE", f"ssh-host-keys/{key['id']}")
            typer.echo(f"Deleted SHA256:{key['sha256']} of {address}:{key['port']}.")


@node_app.command("token")
def node_token(
    node: Annotated[
        str,
        typer.Option(
            help="Node whose machine was reinstalled; it keeps its name and labels.",
            autocompletion=complete_names("nodes"),
        ),
    ] = "",
) -> None:
    """Create an enrolment token. It is valid once, for 15 minutes."""
    api = client()
    body = {"node_id": api.find_by_name("nodes", node)["id"]} if node else {}
    typer.echo(api.request("POST", "enrolment-tokens", body)["token"])
