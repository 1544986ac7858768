"""The commands `busbar gpu` and `busbar capacity`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.completion import complete_names
from remoting.cli.label_options import LabelFilter, Labels, apply_label_changes
from remoting.cli.object_ids import id_of
from remoting.cli.output import Output, client, print_structured, show, show_one

gpu_app = typer.Typer(no_args_is_help=True, help="Manage the GPUs of all nodes.")

GpuName = Annotated[str, typer.Argument(help="Id of the GPU, or NODE/INDEX.")]

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
GPU_WIDE = [
    "compute_capability",
    "mig",
    "duplicate_of_node",
    "pci_bus_id",
    "labels",
    "metrics.temperature_celsius",
    "metrics.power_watts",
    "present",
    "id",
]
FREE: dict[str, Any] = {"allocated_percent": 0, "free_percent": 100, "owners": ""}
"""Shares of compute of a GPU without partitions."""


@gpu_app.command("list")
def gpu_list(
    pool: Annotated[
        str, typer.Option(autocompletion=complete_names("pools"), help="Name of a pool.")
    ] = "",
    node: Annotated[
        str, typer.Option(autocompletion=complete_names("nodes"), help="Name of a node.")
    ] = "",
    model: Annotated[str, typer.Option(help="Part of the GPU model's name.")] = "",
    labels: LabelFilter = "",
    held: Annotated[
        bool, typer.Option("--held", help="Only GPUs that wait for `busbar gpu admit`.")
    ] = False,
    output: Output = "table",
) -> None:
    """List GPUs with their current metrics, their free share, and the owners of allocations.

    Owners are those of active allocations that you may view.
    """
    api = client()
    wanted = {"pool": pool, "node": node, "model": model, "labels": labels}
    filters = {key: value for key, value in wanted.items() if value}
    if held:
        filters["held"] = "true"
    rows = sorted(api.items("gpus", **filters), key=lambda g: (g["node"], g["index"]))
    shares = occupied_shares(api)
    rows = [row | shares.get(row["id"], FREE) for row in rows]
    show(rows, [*GPU_COLUMNS[:-2], *FREE, *GPU_COLUMNS[-2:]], output, GPU_WIDE)


def occupied_shares(api: rest.Api) -> dict[str, dict[str, Any]]:
    """Return the columns of FREE for each GPU with partitions, by its id."""
    running = (a for s in ("active", "suspended") for a in api.items("allocations", state=s))
    owners = {a["id"]: a["owner"] for a in running}
    found: dict[str, dict[str, Any]] = {}
    for p in api.items("partitions"):
        shares = found.setdefault(p["gpu_id"], dict(FREE))
        shares["allocated_percent"] += p["compute_percent"]
        shares["free_percent"] -= p["compute_percent"]
        names = {*shares["owners"].split(", "), owners.get(p["allocation_id"], "")} - {""}
        shares["owners"] = ", ".join(sorted(names))
    return found


def find_gpu(api: rest.Api, name: str) -> dict[str, Any]:
    """Return the GPU with this id or NODE/INDEX name. Raises ApiError if absent."""
    node, slash, index = name.partition("/")
    if not slash:
        return api.request("GET", f"gpus/{id_of(api, 'gpus', name)}")
    for gpu in api.items("gpus", node=node):
        if str(gpu["index"]) == index:
            return gpu
    raise rest.ApiError(
        f'GPU "{name}" not found. List GPUs with: busbar gpu list', rest.EXIT_NOT_FOUND
    )


@gpu_app.command("label")
def gpu_label(gpu: GpuName, labels: Labels, output: Output = "table") -> None:
    """Set and remove labels of a GPU. Requests select GPUs by label."""
    api = client()
    row = find_gpu(api, gpu)
    changes = {"labels": apply_label_changes(row["labels"], labels)}
    show_one(
        api.request("PATCH", f"gpus/{row['id']}", changes),
        ["node", "index", "labels"],
        output,
    )


@gpu_app.command("move")
def gpu_move(
    gpu: GpuName,
    pool: Annotated[
        str,
        typer.Argument(
            help='Name of the pool; "" for none.', autocompletion=complete_names("pools")
        ),
    ],
    output: Output = "table",
) -> None:
    """Move a GPU to another pool. Existing allocations stay."""
    api = client()
    show_one(
        api.request("PATCH", f"gpus/{find_gpu(api, gpu)['id']}", {"pool": pool}),
        ["node", "index", "pool"],
        output,
    )


@gpu_app.command("admit")
def gpu_admit(
    gpu: GpuName,
    pool: Annotated[
        str,
        typer.Option(
            autocompletion=complete_names("pools"), help="Name of the pool; default: the oldest."
        ),
    ] = "",
    output: Output = "table",
) -> None:
    """Admit a GPU that a node reported after its enrolment. List them: busbar gpu list --held"""
    api = client()
    path = f"gpus/{find_gpu(api, gpu)['id']}/admit"
    admitted = api.request("POST", path, {"pool": pool} if pool else {})
    show_one(admitted, ["node", "index", "pool"], output)


@gpu_app.command("note")
def gpu_note(gpu: GpuName, notes: str, output: Output = "table") -> None:
    """Set the notes of a GPU."""
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
    by: Annotated[
        str,
        typer.Option(help="Group by pool, node, site or model.", autocompletion=lambda: GROUPS),
    ] = "pool",
    output: Output = "table",
) -> None:
    """Show total, allocatable, allocated, used and idle GPUs and memory."""
    response = client().request("GET", "capacity", None, by=by)
    if not print_structured(response, output):
        show([*response["items"], response["total"]], CAPACITY_COLUMNS, "table")
