"""`busbar node` and `busbar gpu`: what there is, and what may start on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from remoting.cli import add_command
from remoting.cli import api as rest
from remoting.cli.completion import names
from remoting.cli.output import Output, client, plain, show, show_one

node_app = typer.Typer(no_args_is_help=True, help="Machines with GPUs.")
gpu_app = typer.Typer(no_args_is_help=True, help="GPUs of all nodes.")

NodeName = Annotated[str, typer.Argument(autocompletion=names("nodes"))]
GpuName = Annotated[str, typer.Argument(help="its id, or NODE/INDEX")]
Labels = Annotated[list[str], typer.Argument(help="KEY=VALUE to set, KEY- to take away")]
LabelFilter = Annotated[str, typer.Option("-l", "--labels", help="KEY=VALUE,… that they have")]

NODE_COLUMNS = [
    "name",
    "state",
    "reachable",
    "driver_version",
    "cuda_version",
    "agent_version",
    "id",
]
GPU_COLUMNS = [
    "node",
    "index",
    "model",
    "memory_bytes",
    "metrics.memory_used_bytes",
    "metrics.utilisation_percent",
    "pool",
    "uuid",
]
NODE_MORE = [
    "site",
    "notes",
    "agent_outdated",
    "labels",
    "operating_system",
    "last_seen_at",
    "generation",
    "applied_generation",
]
GPU_MORE = ["compute_capability", "mig", "pci_bus_id", "links", "labels", "notes", "present", "id"]


@node_app.command("list")
def node_list(labels: LabelFilter = "", output: Output = "table") -> None:
    """All nodes."""
    rows = client().items("nodes", **({"labels": labels} if labels else {}))
    show(rows, NODE_COLUMNS, output, NODE_MORE)


@node_app.command("show")
def node_show(name: NodeName, output: Output = "table") -> None:
    """One node."""
    show_one(client().named("nodes", name), NODE_COLUMNS, output, NODE_MORE)


@node_app.command("add")
def node_add(
    destination: Annotated[str, typer.Argument(help="ssh://USER@HOST[:PORT]")],
    key: Annotated[
        Path | None, typer.Option(help="private key file; otherwise a password is asked for")
    ] = None,
    agent: Annotated[
        bool, typer.Option(help="use the SSH agent of the appliance's process")
    ] = False,
    software_gpus: Annotated[
        int, typer.Option(min=0, max=16, help="for a machine without NVIDIA's driver")
    ] = 0,
    address: Annotated[
        list[str] | None,
        typer.Option(help="under which clients reach the node; may be given again"),
    ] = None,
    host_key_sha256: Annotated[
        str, typer.Option(help="confirms the machine's key; asked for when absent")
    ] = "",
) -> None:
    """Registers a machine over SSH: its key is confirmed, its state checked, the agent installed."""
    add_command.add(
        client(),
        destination,
        key=key,
        agent=agent,
        software_gpus=software_gpus,
        addresses=address or [],
        host_key_sha256=host_key_sha256,
    )


@node_app.command("remove")
def node_remove(name: NodeName) -> None:
    """Takes a node out of the pool; refused while something runs there."""
    api = client()
    api.request("DELETE", f"nodes/{api.named('nodes', name)['id']}")
    typer.echo(
        f"Node {name} was removed. On the machine itself: sudo /opt/busbar/busbar-node remove"
    )


def relabelled(now: dict[str, str], given: list[str]) -> dict[str, str]:
    labels = dict(now)
    for text in given:
        key, equals, value = text.partition("=")
        if equals and key:
            labels[key] = value
        elif text.endswith("-") and len(text) > 1:
            labels.pop(text[:-1], None)
        else:
            raise rest.ApiError(f"{text} is neither KEY=VALUE nor KEY-.", rest.EXIT_USAGE)
    return labels


@node_app.command("label")
def node_label(name: NodeName, labels: Labels, output: Output = "table") -> None:
    """Sets and takes away labels; requests can ask for them."""
    api = client()
    node = api.named("nodes", name)
    show_one(
        api.request("PATCH", f"nodes/{node['id']}", {"labels": relabelled(node["labels"], labels)}),
        ["name", "labels"],
        output,
    )


@node_app.command("set")
def node_set(
    name: NodeName,
    site: Annotated[
        str | None,
        typer.Option(autocompletion=names("sites"), help="where it stands; an empty one: nowhere"),
    ] = None,
    notes: str | None = None,
    network: Annotated[
        list[str] | None,
        typer.Option(help="ADDRESS=NAME; pools prefer a network by its name; may be given again"),
    ] = None,
    output: Output = "table",
) -> None:
    """Changes what is given and nothing else."""
    api = client()
    networks = dict(one.rpartition("=")[::2] for one in network) if network else None
    given = {
        key: value
        for key, value in {"site": site, "notes": notes, "networks": networks}.items()
        if value is not None
    }
    show_one(
        api.request("PATCH", f"nodes/{api.named('nodes', name)['id']}", given),
        ["name", "site", "notes"],
        output,
    )


@node_app.command("cordon")
def node_cordon(name: NodeName) -> None:
    """Present allocations stay, new ones do not come."""
    api = client()
    typer.echo(api.request("POST", f"nodes/{api.named('nodes', name)['id']}/cordon")["state"])


@node_app.command("uncordon")
def node_uncordon(name: NodeName) -> None:
    """New allocations may come again."""
    api = client()
    typer.echo(api.request("POST", f"nodes/{api.named('nodes', name)['id']}/uncordon")["state"])


@node_app.command("maintenance")
def node_maintenance(
    name: NodeName,
    grace: Annotated[
        float, typer.Option(min=0, help="seconds of notice for allocations there")
    ] = 300.0,
) -> None:
    """Empties a node; it gets nothing new until exit-maintenance."""
    api = client()
    task = api.request(
        "POST",
        f"nodes/{api.named('nodes', name)['id']}/enter-maintenance",
        {"grace_seconds": grace},
    )
    typer.echo(
        task["message"] if task["state"] == "running" else f"Node {name} is in maintenance mode."
    )


@node_app.command("exit-maintenance")
def node_exit_maintenance(name: NodeName) -> None:
    """Back to work; what had notice and is still there may stay."""
    api = client()
    typer.echo(
        api.request("POST", f"nodes/{api.named('nodes', name)['id']}/exit-maintenance")["state"]
    )


@node_app.command("blockers")
def node_blockers(name: NodeName, output: Output = "table") -> None:
    """Allocations that stand in the way of a node's maintenance or removal."""
    api = client()
    show(
        api.items(f"nodes/{api.named('nodes', name)['id']}/blockers"),
        ["id", "name", "owner", "project", "state", "evict_at", "end_reason"],
        output,
    )


@node_app.command("keys")
def node_keys(output: Output = "table") -> None:
    """SSH keys of machines that an operator confirmed."""
    show(
        client().items("ssh-host-keys"),
        ["address", "port", "key_type", "sha256", "confirmed_by", "created_at"],
        output,
    )


@node_app.command("forget-key")
def node_forget_key(address: str) -> None:
    """Forgets the SSH key of a machine that was set up anew."""
    api = client()
    for held in api.items("ssh-host-keys"):
        if held["address"] == address:
            api.request("DELETE", f"ssh-host-keys/{held['id']}")
            typer.echo(f"Forgot SHA256:{held['sha256']} of {address}:{held['port']}.")


@node_app.command("token")
def node_token(
    node: Annotated[
        str,
        typer.Option(
            help="whose machine was installed anew: it is that node again",
            autocompletion=names("nodes"),
        ),
    ] = "",
) -> None:
    """Makes an enrolment token: single use, 15 minutes."""
    api = client()
    wanted = {"node_id": api.named("nodes", node)["id"]} if node else {}
    typer.echo(api.request("POST", "enrolment-tokens", wanted)["token"])


@gpu_app.command("list")
def gpu_list(
    pool: Annotated[str, typer.Option(autocompletion=names("pools"))] = "",
    node: Annotated[str, typer.Option(autocompletion=names("nodes"))] = "",
    model: str = "",
    labels: LabelFilter = "",
    output: Output = "table",
) -> None:
    """All GPUs, with what they do now."""
    given = {
        key: value
        for key, value in {"pool": pool, "node": node, "model": model, "labels": labels}.items()
        if value
    }
    rows = sorted(client().items("gpus", **given), key=lambda g: (g["node"], g["index"]))
    show(
        rows,
        GPU_COLUMNS,
        output,
        [
            "compute_capability",
            "mig",
            "pci_bus_id",
            "labels",
            "metrics.temperature_celsius",
            "metrics.power_watts",
            "present",
            "id",
        ],
    )


def find_gpu(api: rest.Api, name: str) -> dict[str, Any]:
    node, slash, index = name.partition("/")
    if not slash:
        return api.request("GET", f"gpus/{name}")
    for gpu in api.items("gpus", node=node):
        if str(gpu["index"]) == index:
            return gpu
    raise rest.ApiError(
        f"There is no GPU {name}; `busbar gpu list` shows them.", rest.EXIT_NOT_FOUND
    )


@gpu_app.command("show")
def gpu_show(gpu: GpuName, output: Output = "table") -> None:
    """One GPU."""
    show_one(find_gpu(client(), gpu), GPU_COLUMNS, output, GPU_MORE)


@gpu_app.command("label")
def gpu_label(gpu: GpuName, labels: Labels, output: Output = "table") -> None:
    """Sets and takes away labels; requests can ask for them."""
    api = client()
    row = find_gpu(api, gpu)
    show_one(
        api.request("PATCH", f"gpus/{row['id']}", {"labels": relabelled(row["labels"], labels)}),
        ["node", "index", "labels"],
        output,
    )


@gpu_app.command("move")
def gpu_move(
    gpu: GpuName, pool: Annotated[str, typer.Argument(help='"" takes it out of its pool', autocompletion=names("pools"))], output: Output = "table"
) -> None:  # fmt: skip
    """Puts a GPU into another pool; what runs on it stays."""
    api = client()
    show_one(
        api.request("PATCH", f"gpus/{find_gpu(api, gpu)['id']}", {"pool": pool}),
        ["node", "index", "pool"],
        output,
    )


@gpu_app.command("note")
def gpu_note(gpu: GpuName, notes: str, output: Output = "table") -> None:
    """Writes on a GPU what people should know of it."""
    api = client()
    show_one(
        api.request("PATCH", f"gpus/{find_gpu(api, gpu)['id']}", {"notes": notes}),
        ["node", "index", "notes"],
        output,
    )


GROUPS = ["pool", "node", "site", "model"]
AMOUNTS = ("capacity", "allocatable", "allocated", "used", "idle")
CAPACITY_COLUMNS = [
    "name",
    *(f"gpus.{a}" for a in AMOUNTS),
    "memory_bytes.capacity",
    "memory_bytes.allocated",
    "memory_bytes.used",
]


def capacity(
    by: Annotated[str, typer.Option(help="pool, node, site or model", autocompletion=lambda: GROUPS)] = "pool", output: Output = "table"
) -> None:  # fmt: skip
    """How much there is, can be given, is given, works, and is held for nothing; in GPUs and in memory."""
    answer = client().request("GET", "capacity", None, by=by)
    if not plain(answer, output):
        show([*answer["items"], answer["total"]], CAPACITY_COLUMNS, "table")
