"""`busbar events`, `busbar task`, `busbar metrics` and `busbar top`: what happens and what happened."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live

from remoting.cli import api as rest
from remoting.cli.output import Output, cell, client, plain, show, show_one, table_of

task_app = typer.Typer(no_args_is_help=True, help="What is being done.")
TASK_COLUMNS = [
    "created_at",
    "kind",
    "state",
    "progress_percent",
    "initiator",
    "message",
    "error.detail",
]
EVENT_COLUMNS = ["created_at", "kind", "actor", "message"]
NEWEST = 100


def events(
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="go on with what happens from now on")
    ] = False,
    path: Annotated[
        str, typer.Option(help="of the object or what is above it, such as nodes/ID")
    ] = "",
    kind: str = "",
    actor: str = "",
    since: Annotated[str, typer.Option(help="such as 2026-11-22T09:00:00Z")] = "",
    output: Output = "table",
) -> None:
    """What happened, newest first."""
    given = {
        key: value
        for key, value in {"path": path, "kind": kind, "actor": actor, "since": since}.items()
        if value
    }
    api = client()
    if not watch:
        show(
            api.request("GET", "events", None, limit=str(NEWEST), **given)["items"],
            EVENT_COLUMNS,
            output,
            ["path", "id"],
        )
        return
    for row in followed(api):
        if (
            row["path"].startswith(path)
            and kind in ("", row["kind"])
            and actor in ("", row["actor"])
            and not plain(row, output)
        ):
            typer.echo("  ".join(cell(row, column) for column in EVENT_COLUMNS))


def followed(api: rest.Api) -> Iterator[dict[str, Any]]:
    """Events as they come; a broken connection is taken up again where it broke."""
    since, delay = "", 1.0
    while True:
        try:
            for token, kind, data in api.stream(
                "watch", kinds="event", **({"since": since} if since else {})
            ):
                since, delay = "" if kind == "resync" else token or since, 1.0
                if kind == "event" and data["row"]:
                    yield data["row"]
        except rest.Away:
            pass
        except rest.ApiError as error:
            if error.code != "gone":
                raise
            since = ""  # too long away: what was missed is in `busbar events`
        time.sleep(delay)
        delay = min(delay * 2, 30.0)


@task_app.command("list")
def task_list(
    state: str = "",
    kind: str = "",
    parent: Annotated[str, typer.Option(help="id of the larger task")] = "",
    output: Output = "table",
) -> None:
    """What is being done, newest first."""
    given = {
        key: value
        for key, value in {"state": state, "kind": kind, "parent_id": parent}.items()
        if value
    }
    show(
        client().request("GET", "tasks", None, limit=str(NEWEST), **given)["items"],
        TASK_COLUMNS,
        output,
        ["path", "parent_id", "cancellable", "id"],
    )


@task_app.command("show")
def task_show(
    task_id: str, wait: Annotated[float, typer.Option(min=0, max=60, help="seconds to wait for its end")] = 0, output: Output = "table"
) -> None:  # fmt: skip
    """One task; -o json has its result."""
    show_one(
        client().request("GET", f"tasks/{task_id}", None, **({"wait": str(wait)} if wait else {})),
        TASK_COLUMNS,
        output,
        ["path", "parent_id", "id"],
    )


@task_app.command("log")
def task_log(task_id: str, output: Output = "table") -> None:
    """What a task said while it ran."""
    show(
        list(reversed(client().items(f"tasks/{task_id}/log"))),
        ["created_at", "progress_percent", "message"],
        output,
    )


@task_app.command("cancel")
def task_cancel(task_id: str) -> None:
    """Stops it; what was done so far is undone or left, as its kind has it."""
    typer.echo(client().request("POST", f"tasks/{task_id}/cancel")["state"])


SERIES = {"gpu": "gpus", "partition": "partitions", "session": "sessions", "project": "projects"}


def metrics(
    kind: Annotated[
        str,
        typer.Argument(
            help="gpu, partition, session or project", autocompletion=lambda: list(SERIES)
        ),
    ],
    object_id: Annotated[str, typer.Argument(metavar="ID")],
    hours: Annotated[float, typer.Option(min=0.01, help="back from now")] = 1.0,
    metric: Annotated[list[str] | None, typer.Option(help="only these; may be given again")] = None,
    resolution: Annotated[
        int | None, typer.Option(help="seconds: 0, 10, 60 or 3600; by default what fits")
    ] = None,
    output: Output = "table",
) -> None:
    """How something was used: least, mean, most and newest; -o json has every point."""
    if kind not in SERIES:
        raise rest.ApiError(f"{kind} is none of {', '.join(SERIES)}.", rest.EXIT_USAGE)
    since = (datetime.now(UTC) - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    given = {"since": since} | (
        {"resolution_seconds": str(resolution)} if resolution is not None else {}
    )
    answer = client().request("GET", f"{SERIES[kind]}/{object_id}/metrics", None, **given)
    answer["items"] = [i for i in answer["items"] if not metric or i["metric"] in metric]
    if not plain(answer, output):
        show(
            [summary(i) for i in answer["items"]],
            ["metric", "least", "mean", "most", "newest", "points"],
            "table",
        )


def summary(series: dict[str, Any]) -> dict[str, Any]:
    values = [p[1] for p in series["points"] if p[1] is not None]
    if not values:
        return {"metric": series["metric"], "points": 0}
    figures = {
        "least": min(values),
        "mean": sum(values) / len(values),
        "most": max(values),
        "newest": values[-1],
    }
    return {
        "metric": series["metric"],
        **{k: f"{v:.6g}" for k, v in figures.items()},
        "points": len(values),
    }


def time_to_gpu(
    hours: Annotated[float, typer.Option(min=0.01, help="back from now")] = 24.0, project: str = "", output: Output = "table"
) -> None:  # fmt: skip
    """How long people waited for GPUs, and how often that was within what their class is promised."""
    since = (datetime.now(UTC) - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    answer = client().request(
        "GET", "time-to-gpu", None, since=since, **({"project": project} if project else {})
    )
    columns = [
        "name",
        "target_seconds",
        "count",
        "p50_seconds",
        "p90_seconds",
        "p99_seconds",
        "within_target_share",
        "waiting",
        "longest_waiting_seconds",
    ]
    show(answer["items"], columns, output)


def top(
    every: Annotated[float, typer.Option(min=0.5, help="seconds")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="print it once and end")] = False,
    lines: Annotated[int, typer.Option("-n", min=1, help="of each table")] = 20,
) -> None:
    """The busiest GPUs and sessions, over and over."""
    api = client()
    if once:
        Console().print(picture(api, lines))
        return
    with Live(picture(api, lines), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(picture(api, lines), refresh=True)


def picture(api: rest.Api, lines: int) -> Group:
    gpus = sorted(
        api.items("gpus"), key=lambda g: -float(g["metrics"].get("utilisation_percent", 0))
    )
    sessions = sorted(api.items("sessions", state="running"), key=lambda s: -int(s["memory_bytes"]))
    busy = sum(g["metrics"].get("utilisation_percent", 0) for g in gpus) / max(len(gpus), 1)
    head = f"{len(gpus)} GPUs, {busy:.0f} % busy on average; {len(sessions)} sessions"
    gpu_columns = [
        "node",
        "index",
        "model",
        "metrics.utilisation_percent",
        "metrics.memory_used_bytes",
        "memory_bytes",
        "metrics.power_watts",
    ]
    session_columns = ["program", "client_address", "node", "memory_bytes", "launches", "opened_at"]
    return Group(
        head,
        "",
        table_of(gpus[:lines], gpu_columns),
        "",
        table_of(sessions[:lines], session_columns),
    )
