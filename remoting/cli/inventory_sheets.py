"""The commands `show` of sites, nodes, GPUs, pools and reservations."""

from __future__ import annotations

from remoting.cli import api as rest
from remoting.cli.allocation_sizes import with_size
from remoting.cli.gpu_commands import GpuName, find_gpu, gpu_app
from remoting.cli.node_commands import NodeName, node_app
from remoting.cli.object_ids import id_of
from remoting.cli.output import Output, client
from remoting.cli.pool_commands import (
    POOLS,
    QUOTA_SETTINGS,
    RESERVATION_SETTINGS,
    ReservationName,
    quota_app,
    reservation_app,
)
from remoting.cli.quota_subjects import QuotaSubject, existing_quota_of, parse_subject
from remoting.cli.sheet import Related, Row, page, print_sheet
from remoting.cli.site_commands import SITES

NODE_FIELDS = (
    "state",
    "reachable",
    "locked_at",
    "lock_reason",
    "site",
    "labels",
    "notes",
    "operating_system",
    "driver_version",
    "cuda_version",
    "agent_version",
    "agent_outdated",
    "isolation",
    "endpoints",
    "last_seen_at",
    "id",
)
GPU_FIELDS = (
    "model",
    "pool",
    "held",
    "duplicate_of_node",
    "present",
    "mig",
    "memory_bytes",
    "context_bytes",
    "metrics.memory_used_bytes",
    "metrics.utilisation_percent",
    "metrics.temperature_celsius",
    "metrics.power_watts",
    "compute_capability",
    "pci_bus_id",
    "links",
    "labels",
    "notes",
    "uuid",
    "id",
)
OCCUPANTS = ("node", "gpu_index", "compute_percent", "memory_bytes", "allocation_id")
EVENTS = ("created_at", "kind", "actor", "message")


def events_of(api: rest.Api, object_id: str) -> Related:
    return Related("Events", EVENTS, lambda: page(api, "events", object_id=object_id))


def with_endpoints(node: Row) -> Row:
    """Return the node with its endpoints as texts."""
    return node | {"endpoints": [f"{e['address']}:{e['port']}" for e in node["endpoints"]]}


@SITES.shows
def site_show(api: rest.Api, site: Row) -> list[Related]:
    """Show a site with its nodes."""
    columns = ("name", "state", "reachable")
    return [Related("Nodes", columns, lambda: page(api, "nodes", site=site["name"]))]


@node_app.command("show")
def node_show(name: NodeName, output: Output = "table") -> None:
    """Show a node with its GPUs, what occupies them, and its events."""
    api = client()
    node = api.find_by_name("nodes", name)
    related = [
        Related(
            "GPUs",
            (
                "index",
                "model",
                "memory_bytes",
                "pool",
                "metrics.utilisation_percent",
                "duplicate_of_node",
            ),
            lambda: sorted(page(api, "gpus", node=name), key=lambda g: g["index"]),
        ),
        Related("Partitions", OCCUPANTS, lambda: page(api, "partitions", node=name)),
        events_of(api, node["id"]),
    ]
    shown = node if output in ("json", "yaml") else with_endpoints(node)
    print_sheet(f"Node {name}", shown, NODE_FIELDS, related, output)


@gpu_app.command("show")
def gpu_show(gpu: GpuName, output: Output = "table") -> None:
    """Show a GPU with the partitions on it and their owners."""
    api = client()
    row = find_gpu(api, gpu)
    partitions = Related(
        "Partitions",
        (
            "owner",
            "project",
            "compute_percent",
            "memory_bytes",
            "state",
            "allocation_id",
        ),
        lambda: with_owners(api, page(api, "partitions", gpu_id=row["id"])),
    )
    events = events_of(api, row["id"])
    title = f"GPU {row['node']}/{row['index']}"
    print_sheet(title, row, GPU_FIELDS, [partitions, events], output)


def with_owners(api: rest.Api, partitions: list[Row]) -> list[Row]:
    """Add owner and project of the allocations that the user may view."""
    found = []
    for partition in partitions:
        try:
            allocation = api.request("GET", f"allocations/{partition['allocation_id']}")
        except rest.ApplianceUnreachable:
            raise
        except rest.ApiError:
            allocation = {}
        found.append(partition | {key: allocation.get(key) for key in ("owner", "project")})
    return found


@POOLS.shows
def pool_show(api: rest.Api, pool: Row) -> list[Related]:
    """Show a pool with its capacity, GPUs, allocations and reservations."""
    name = pool["name"]
    return [
        Related(
            "Capacity",
            ("gpus.capacity", "gpus.allocatable", "gpus.allocated", "gpus.used", "gpus.idle"),
            lambda: [
                row
                for row in api.request("GET", "capacity", None, by="pool")["items"]
                if row["name"] == name
            ],
        ),
        Related("GPUs", ("node", "index", "model"), lambda: page(api, "gpus", pool=name)),
        Related(
            "Active allocations",
            ("name", "owner", "project", "gpu_count", "percent", "id"),
            lambda: map(with_size, page(api, "allocations", placed_pool=name, state="active")),
        ),
        Related(
            "Reservations",
            ("name", "project", "gpu_count", "percent", "starts_at", "ends_at"),
            lambda: page(api, "reservations", pool=name),
        ),
    ]


@reservation_app.command("show")
def reservation_show(reservation: ReservationName, output: Output = "table") -> None:
    """Show a reservation with the allocations that use it."""
    api = client()
    reservation_id = id_of(api, "reservations", reservation)
    row = api.request("GET", f"reservations/{reservation_id}")
    allocations = Related(
        "Allocations",
        ("name", "owner", "state", "id"),
        lambda: page(api, "allocations", reservation_id=reservation_id),
    )
    fields = [*RESERVATION_SETTINGS, "id"]
    print_sheet(f"Reservation {row['name']}", row, fields, [allocations], output)


@quota_app.command("show")
def quota_show(
    subject: QuotaSubject,
    output: Output = "table",
) -> None:
    """Show the quota and limit of a user, project or department, and what it uses."""
    api = client()
    kind, name = parse_subject(subject)
    found = existing_quota_of(api.items("quotas", subject_kind=kind), subject)
    filters = {"user": {"owner": name}, "project": {"project": name}}.get(kind)
    allocations = Related(
        "Active allocations",
        ("name", "owner", "project", "gpu_count", "percent", "id"),
        lambda: map(with_size, page(api, "allocations", state="active", **(filters or {}))),
    )
    fields = [*QUOTA_SETTINGS, "id"]
    related = [allocations] if filters else []
    print_sheet(f"Quota of {kind} {name}", found, fields, related, output)
