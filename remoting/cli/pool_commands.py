"""`busbar pool`, `busbar quota`, `busbar reservation`, `busbar project`: who may have how much of what."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.completion import names
from remoting.cli.output import Output, client, show, show_one

pool_app = typer.Typer(no_args_is_help=True, help="Named sets of GPUs, and how they choose.")
quota_app = typer.Typer(
    no_args_is_help=True, help="What a user, project or department is owed, and the most it gets."
)
reservation_app = typer.Typer(
    no_args_is_help=True, help="GPUs kept for a project between two times."
)
project_app = typer.Typer(no_args_is_help=True, help="Projects and their departments.")
department_app = typer.Typer(no_args_is_help=True, help="Projects that share a quota.")
APPS = {
    "pool": pool_app,
    "quota": quota_app,
    "reservation": reservation_app,
    "project": project_app,
    "department": department_app,
}

Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy", help="pack, spread, model_affinity, exclusive; again for the next in order"
    ),
]
Fallbacks = Annotated[
    list[str] | None, typer.Option("--fallback", help="pool that is tried next; may be given again")
]
MaxLifetime = Annotated[int | None, typer.Option(min=0, help="seconds; 0: no end")]
MaxIdle = Annotated[
    int | None, typer.Option(min=0, help="seconds without a launch or a copy; 0: no end")
]
ForProjects = Annotated[
    list[str] | None,
    typer.Option(
        "--project", help="it is kept for; may be given again; an empty one opens it to all"
    ),
]
Network = Annotated[str | None, typer.Option(help="whose addresses of a node are tried first")]
PoolName = Annotated[str, typer.Argument(autocompletion=names("pools"))]
POOL_COLUMNS = [
    "name",
    "policies",
    "fallbacks",
    "max_lifetime_seconds",
    "max_idle_seconds",
    "network",
    "projects",
    "id",
]


def rules(
    policy: list[str] | None, fallback: list[str] | None, max_lifetime: int | None, max_idle: int | None, network: str | None,
    project: list[str] | None,
) -> dict[str, Any]:  # fmt: skip
    given = {
        "policies": policy,
        "fallbacks": fallback,
        "max_lifetime_seconds": max_lifetime,
        "max_idle_seconds": max_idle,
        "network": network,
    }
    if project is not None:
        given["projects"] = [p for p in project if p]
    return {key: value for key, value in given.items() if value is not None}


@pool_app.command("list")
def pool_list(output: Output = "table") -> None:
    """All pools."""
    show(client().items("pools"), POOL_COLUMNS, output, ["labels", "created_at"])


@pool_app.command("create")
def pool_create(
    name: str,
    policy: Policies = None,
    fallback: Fallbacks = None,
    max_lifetime: MaxLifetime = None,
    max_idle: MaxIdle = None,
    network: Network = None,
    project: ForProjects = None,
) -> None:
    """Makes a pool."""
    typer.echo(
        client().request(
            "POST",
            "pools",
            {"name": name} | rules(policy, fallback, max_lifetime, max_idle, network, project),
        )["id"]
    )


@pool_app.command("set")
def pool_set(
    name: PoolName, policy: Policies = None, fallback: Fallbacks = None, max_lifetime: MaxLifetime = None, max_idle: MaxIdle = None,
    network: Network = None, project: ForProjects = None, output: Output = "table",
) -> None:  # fmt: skip
    """Changes how a pool chooses and for whom; what is not given stays."""
    api = client()
    changes = rules(policy, fallback, max_lifetime, max_idle, network, project)
    show_one(
        api.request("PATCH", f"pools/{api.named('pools', name)['id']}", changes),
        POOL_COLUMNS,
        output,
    )


@pool_app.command("delete")
def pool_delete(name: PoolName) -> None:
    """Refused while GPUs are in it or allocations use it."""
    api = client()
    api.request("DELETE", f"pools/{api.named('pools', name)['id']}")


@pool_app.command("defragment")
def pool_defragment(name: PoolName, output: Output = "table") -> None:
    """Shows which moves would make GPUs whole; moves nothing."""
    api = client()
    plan = api.request("GET", f"pools/{api.named('pools', name)['id']}/defragmentation")
    show(
        plan["moves"],
        ["allocation_id", "from_gpu_id", "to_gpu_id", "compute_percent", "memory_bytes"],
        output,
    )
    if output == "table":
        typer.echo(f"Whole GPUs now: {plan['whole_gpus']}; afterwards: {plan['whole_gpus_after']}.")


@quota_app.command("list")
def quota_list(output: Output = "table") -> None:
    """All quotas."""
    show(
        client().items("quotas"),
        ["subject_kind", "subject", "quota_gpus", "limit_gpus", "borrows", "weight", "id"],
        output,
    )


@quota_app.command("set")
def quota_set(
    subject: Annotated[str, typer.Argument(help="user/NAME, project/NAME or department/NAME")],
    quota: Annotated[
        float | None, typer.Option(min=0, help="GPUs that it may always have, such as 2.3")
    ] = None,
    limit: Annotated[float | None, typer.Option(min=0, help="GPUs that it never exceeds")] = None,
    borrows: Annotated[
        bool | None, typer.Option(help="may go beyond its quota while others do not use theirs")
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(min=0.01, help="twice the weight, twice the share of what is over"),
    ] = None,
) -> None:
    """Sets what is given; the rest stays."""
    kind, _, name = subject.partition("/")
    api = client()
    known = next(
        (q for q in api.items("quotas") if (q["subject_kind"], q["subject"]) == (kind, name)), None
    )
    given = {"quota_gpus": quota, "limit_gpus": limit, "borrows": borrows, "weight": weight}
    body = {key: value for key, value in given.items() if value is not None}
    fresh = body | {"subject_kind": kind, "subject": name}
    row = (
        api.request("PATCH", f"quotas/{known['id']}", body)
        if known
        else api.request("POST", "quotas", fresh)
    )
    show(
        [row], ["subject_kind", "subject", "quota_gpus", "limit_gpus", "borrows", "weight"], "table"
    )


@quota_app.command("delete")
def quota_delete(
    subject: Annotated[str, typer.Argument(help="user/NAME, project/NAME or department/NAME")],
) -> None:
    """Takes a quota away."""
    kind, _, name = subject.partition("/")
    api = client()
    for q in api.items("quotas"):
        if (q["subject_kind"], q["subject"]) == (kind, name):
            api.request("DELETE", f"quotas/{q['id']}")
            return
    raise rest.ApiError(f"{subject} has no quota.", rest.EXIT_NOT_FOUND)


@reservation_app.command("list")
def reservation_list(output: Output = "table") -> None:
    """All reservations."""
    show(
        client().items("reservations"),
        ["name", "pool", "project", "gpu_count", "percent", "starts_at", "ends_at", "id"],
        output,
    )


@reservation_app.command("create")
def reservation_create(
    name: str,
    starts_at: Annotated[str, typer.Option("--from", help="such as 2027-01-31T08:00:00Z")],
    ends_at: Annotated[str, typer.Option("--to")],
    gpu_count: Annotated[int, typer.Option("-n", "--gpus", min=1)] = 1,
    percent: Annotated[int, typer.Option("-p", "--percent", min=1, max=100)] = 100,
    pool: str = "default",
    project: str = "default",
) -> None:
    """Keeps GPUs of a pool for a project."""
    body = {
        "name": name,
        "pool": pool,
        "project": project,
        "gpu_count": gpu_count,
        "percent": percent,
        "starts_at": starts_at,
        "ends_at": ends_at,
    }
    typer.echo(client().request("POST", "reservations", body)["id"])


@reservation_app.command("delete")
def reservation_delete(reservation_id: str) -> None:
    """Gives the GPUs back to all."""
    client().request("DELETE", f"reservations/{reservation_id}")


@project_app.command("list")
def project_list(output: Output = "table") -> None:
    """Projects that one may see."""
    show(client().items("projects"), ["name", "department", "id"], output)


@project_app.command("create")
def project_create(name: str, department: str = "") -> None:
    """Makes a project."""
    typer.echo(client().request("POST", "projects", {"name": name, "department": department})["id"])


@project_app.command("set")
def project_set(
    name: Annotated[str, typer.Argument(autocompletion=names("projects"))],
    department: str,
    output: Output = "table",
) -> None:
    """Puts a project into a department; "" takes it out."""
    api = client()
    show_one(
        api.request(
            "PATCH", f"projects/{api.named('projects', name)['id']}", {"department": department}
        ),
        ["name", "department", "id"],
        output,
    )


@department_app.command("list")
def department_list(output: Output = "table") -> None:
    """All departments."""
    show(client().items("departments"), ["name", "id"], output)


@department_app.command("create")
def department_create(name: str) -> None:
    """Makes a department: projects that share a quota."""
    typer.echo(client().request("POST", "departments", {"name": name})["id"])
