"""The commands `busbar pool`, `quota` and `reservation`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli.amounts import parse_whole_seconds
from remoting.cli.completion import complete_names
from remoting.cli.confirmation import Yes, confirm_deletion
from remoting.cli.object_ids import described, row_of
from remoting.cli.output import Output, client, show, show_one
from remoting.cli.quota_subjects import QuotaSubject, existing_quota_of, parse_subject, quota_of

pool_app = typer.Typer(
    no_args_is_help=True, help="Manage pools: sets of GPUs with placement policies."
)
quota_app = typer.Typer(
    no_args_is_help=True, help="Manage quotas and limits of users, projects and departments."
)
reservation_app = typer.Typer(
    no_args_is_help=True, help="Manage reservations: GPUs kept for a project during a period."
)

Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help="pack, spread, model_affinity or exclusive. Can be repeated, in order of precedence.",
    ),
]
Fallbacks = Annotated[
    list[str] | None,
    typer.Option("--fallback", help="Pool to use when this one is full. Can be repeated."),
]
MaxLifetime = Annotated[
    int | None,
    typer.Option(
        parser=parse_whole_seconds,
        metavar="DURATION",
        help="Maximum lifetime, for example 7d; 0 for no maximum.",
    ),
]
MaxIdle = Annotated[
    int | None,
    typer.Option(
        parser=parse_whole_seconds,
        metavar="DURATION",
        help="Maximum time without a launch or copy, for example 2h; 0 for no maximum.",
    ),
]
MaxLate = Annotated[
    int | None,
    typer.Option(
        parser=parse_whole_seconds,
        metavar="DURATION",
        help="Maximum time for which work may run beyond its turn while others wait, until its "
        "session ends, for example 60s; 0 for no maximum.",
    ),
]
ForProjects = Annotated[
    list[str] | None,
    typer.Option(
        "--project", help='Project that may use the pool. Can be repeated; "" admits all projects.'
    ),
]
Network = Annotated[
    str | None, typer.Option(help="Network whose node addresses clients use first.")
]
AdmitNewGpus = Annotated[
    bool | None,
    typer.Option(
        "--admit-new-gpus/--hold-new-gpus",
        help="Whether GPUs that enrolled nodes report later join the default pool by themselves.",
    ),
]
RequiredIsolation = Annotated[
    str | None,
    typer.Option(
        help="Isolation that nodes need for new allocations: any, process, namespaces or full."
    ),
]
ReservationName = Annotated[
    str, typer.Argument(help="Id of the reservation, 8 or more of its first characters, or a name.")
]
PoolName = Annotated[str, typer.Argument(autocompletion=complete_names("pools"))]
POOL_COLUMNS = [
    "name",
    "policies",
    "fallbacks",
    "max_lifetime_seconds",
    "max_idle_seconds",
    "max_late_seconds",
    "network",
    "admit_new_gpus",
    "required_isolation",
    "projects",
    "id",
]


def pool_fields(
    policy: list[str] | None,
    fallback: list[str] | None,
    max_lifetime: int | None,
    max_idle: int | None,
    max_late: int | None,
    network: str | None,
    admit_new_gpus: bool | None,
    required_isolation: str | None,
    project: list[str] | None,
) -> dict[str, Any]:
    fields = {
        "policies": policy,
        "fallbacks": fallback,
        "max_lifetime_seconds": max_lifetime,
        "max_idle_seconds": max_idle,
        "max_late_seconds": max_late,
        "network": network,
        "admit_new_gpus": admit_new_gpus,
        "required_isolation": required_isolation,
    }
    if project is not None:
        fields["projects"] = [p for p in project if p]
    return {key: value for key, value in fields.items() if value is not None}


@pool_app.command("list")
def pool_list(output: Output = "table") -> None:
    """List pools."""
    show(client().items("pools"), POOL_COLUMNS, output, ["labels", "created_at"])


@pool_app.command("create")
def pool_create(
    name: str,
    policy: Policies = None,
    fallback: Fallbacks = None,
    max_lifetime: MaxLifetime = None,
    max_idle: MaxIdle = None,
    max_late: MaxLate = None,
    network: Network = None,
    admit_new_gpus: AdmitNewGpus = None,
    required_isolation: RequiredIsolation = None,
    project: ForProjects = None,
) -> None:
    """Create a pool and print its id."""
    fields = pool_fields(
        policy,
        fallback,
        max_lifetime,
        max_idle,
        max_late,
        network,
        admit_new_gpus,
        required_isolation,
        project,
    )
    typer.echo(client().request("POST", "pools", {"name": name} | fields)["id"])


@pool_app.command("set")
def pool_set(
    name: PoolName,
    policy: Policies = None,
    fallback: Fallbacks = None,
    max_lifetime: MaxLifetime = None,
    max_idle: MaxIdle = None,
    max_late: MaxLate = None,
    network: Network = None,
    admit_new_gpus: AdmitNewGpus = None,
    required_isolation: RequiredIsolation = None,
    project: ForProjects = None,
    output: Output = "table",
) -> None:
    """Change a pool. Options that are not given keep their values."""
    api = client()
    changes = pool_fields(
        policy,
        fallback,
        max_lifetime,
        max_idle,
        max_late,
        network,
        admit_new_gpus,
        required_isolation,
        project,
    )
    show_one(
        api.request("PATCH", f"pools/{api.find_by_name('pools', name)['id']}", changes),
        POOL_COLUMNS,
        output,
    )


@pool_app.command("delete")
def pool_delete(name: PoolName, yes: Yes = False) -> None:
    """Delete a pool. Fails while it contains GPUs or allocations use it."""
    api = client()
    path = f"pools/{api.find_by_name('pools', name)['id']}"
    reservations = sum(row["pool"] == name for row in api.items("reservations"))
    confirm_deletion(f"pool {name}", f"its settings and {reservations} reservations", yes)
    api.request("DELETE", path)


@pool_app.command("defragment")
def pool_defragment(name: PoolName, output: Output = "table") -> None:
    """Show the moves that would free whole GPUs. Moves nothing."""
    api = client()
    plan = api.request("GET", f"pools/{api.find_by_name('pools', name)['id']}/defragmentation")
    show(
        plan["moves"],
        ["allocation_id", "from_gpu_id", "to_gpu_id", "compute_percent", "memory_bytes"],
        output,
    )
    if output == "table":
        typer.echo(
            f"Free whole GPUs now: {plan['whole_gpus']}, afterwards: {plan['whole_gpus_after']}"
        )


@quota_app.command("list")
def quota_list(output: Output = "table") -> None:
    """List quotas."""
    show(
        client().items("quotas"),
        ["subject_kind", "subject", "quota_gpus", "limit_gpus", "borrows", "weight", "id"],
        output,
    )


@quota_app.command("set")
def quota_set(
    subject: QuotaSubject,
    quota: Annotated[
        float | None, typer.Option(min=0, help="Guaranteed number of GPUs, for example 2.5.")
    ] = None,
    limit: Annotated[float | None, typer.Option(min=0, help="Maximum number of GPUs.")] = None,
    borrows: Annotated[
        bool | None, typer.Option(help="May exceed its quota while other quotas are unused.")
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(min=0.01, help="Relative share of GPUs beyond all quotas."),
    ] = None,
) -> None:
    """Create or change a quota. Options that are not given keep their values."""
    kind, name = parse_subject(subject)
    api = client()
    existing = quota_of(api.items("quotas"), subject)
    options = {"quota_gpus": quota, "limit_gpus": limit, "borrows": borrows, "weight": weight}
    body = {key: value for key, value in options.items() if value is not None}
    row = (
        api.request("PATCH", f"quotas/{existing['id']}", body)
        if existing
        else api.request("POST", "quotas", body | {"subject_kind": kind, "subject": name})
    )
    show(
        [row], ["subject_kind", "subject", "quota_gpus", "limit_gpus", "borrows", "weight"], "table"
    )


@quota_app.command("delete")
def quota_delete(
    subject: QuotaSubject,
    yes: Yes = False,
) -> None:
    """Delete a quota."""
    api = client()
    existing = existing_quota_of(api.items("quotas"), subject)
    confirm_deletion(f"the quota of {subject}", "its guarantee and limit", yes)
    api.request("DELETE", f"quotas/{existing['id']}")


@reservation_app.command("list")
def reservation_list(output: Output = "table") -> None:
    """List reservations."""
    show(
        client().items("reservations"),
        ["name", "pool", "project", "gpu_count", "percent", "starts_at", "ends_at", "id"],
        output,
    )


@reservation_app.command("create")
def reservation_create(
    name: str,
    starts_at: Annotated[
        str, typer.Option("--from", help="Start, for example 2027-01-31T08:00:00Z.")
    ],
    ends_at: Annotated[str, typer.Option("--to", help="End.")],
    gpu_count: Annotated[int, typer.Option("-n", "--gpus", min=1, help="Number of GPUs.")] = 1,
    percent: Annotated[
        int, typer.Option("-p", "--percent", min=1, max=100, help="Share of each GPU.")
    ] = 100,
    pool: Annotated[str, typer.Option(help="Name of the pool.")] = "default",
    project: Annotated[str, typer.Option(help="Name of the project.")] = "default",
    allow_pending: Annotated[
        bool,
        typer.Option("--allow-pending", help="Reserve more GPUs than the pool has at present."),
    ] = False,
) -> None:
    """Reserve GPUs of a pool for a project and print the reservation's id."""
    body = {
        "name": name,
        "pool": pool,
        "project": project,
        "gpu_count": gpu_count,
        "percent": percent,
        "starts_at": starts_at,
        "ends_at": ends_at,
        "allow_pending": allow_pending,
    }
    typer.echo(client().request("POST", "reservations", body)["id"])


@reservation_app.command("delete")
def reservation_delete(reservation: ReservationName, yes: Yes = False) -> None:
    """Delete a reservation."""
    api = client()
    row = row_of(api, "reservations", reservation)
    confirm_deletion(f"reservation {described(row)}", "the GPUs that it keeps", yes)
    api.request("DELETE", f"reservations/{row['id']}")
