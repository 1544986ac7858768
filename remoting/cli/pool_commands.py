"""The commands `busbar pool`, `quota` and `reservation`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli.api_fields import fields_of
from remoting.cli.collection_commands import Collection
from remoting.cli.confirmation import Yes, confirm_deletion
from remoting.cli.field_options import field_options
from remoting.cli.object_ids import described, path_of, row_of
from remoting.cli.output import Output, client, show
from remoting.cli.quota_subjects import QuotaSubject, existing_quota_of, parse_subject, quota_of

POOLS = Collection(
    "pools",
    "Manage pools: sets of GPUs with placement policies.",
    flags={"admit_new_gpus": "--admit-new-gpus/--hold-new-gpus"},
)
quota_app = typer.Typer(
    no_args_is_help=True, help="Manage quotas and limits of users, projects and departments."
)
reservation_app = typer.Typer(
    no_args_is_help=True, help="Manage reservations: GPUs kept for a project during a period."
)

ReservationName = Annotated[
    str, typer.Argument(help="Id of the reservation, 8 or more of its first characters, or a name.")
]
QUOTA_SETTINGS = [*fields_of("quotas", "subject_kind", "subject")]
QUOTA_COLUMNS = ["subject_kind", "subject", *QUOTA_SETTINGS]
RESERVATION_SETTINGS = [*fields_of("reservations", "name", "allow_pending")]


POOLS.lists()
POOLS.creates()
POOLS.changes("name")
POOLS.deletes(
    "Delete a pool. Fails while it contains GPUs or allocations use it.",
    lambda api, name: f"its settings and {len(api.items('reservations', pool=name))} reservations",
)


@POOLS.app.command("defragment")
@POOLS.named
def pool_defragment(name: str, output: Output = "table") -> None:
    """Show the moves that would free whole GPUs. Moves nothing."""
    api = client()
    plan = api.request("GET", f"{path_of(api, 'pools', name)}/defragmentation")
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
    show(client().items("quotas"), [*QUOTA_COLUMNS, "id"], output)


@quota_app.command("set")
@field_options("quotas", "subject_kind", "subject")
def quota_set(subject: QuotaSubject, **values: Any) -> None:
    """Create or change a quota. Options that are not given keep their values."""
    kind, name = parse_subject(subject)
    api = client()
    existing = quota_of(api.items("quotas"), subject)
    row = (
        api.request("PATCH", f"quotas/{existing['id']}", values)
        if existing
        else api.request("POST", "quotas", values | {"subject_kind": kind, "subject": name})
    )
    show([row], QUOTA_COLUMNS, "table")


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
    show(client().items("reservations"), ["name", *RESERVATION_SETTINGS, "id"], output)


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
