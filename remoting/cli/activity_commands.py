"""The commands `busbar events`, `task`, `metrics`, `time-to-gpu` and `top`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live

from remoting.cli import api as rest
from remoting.cli.amounts import parse_duration
from remoting.cli.object_ids import id_of
from remoting.cli.output import (
    Output,
    cell,
    client,
    print_structured,
    show,
    table_of,
)

task_app = typer.Typer(no_args_is_help=True, help="Show and cancel long operations.")
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
PAGE_SIZE = 100
MIN_UPDATE_SECONDS = 0.5
MAX_HOURS = 10 * 366 * 24


def start_of_period(hours: float) -> str:
    """Return the time that many hours ago. Raises ApiError for none, over 10 years and nan."""
    if not 0 < hours <= MAX_HOURS:
        text = f"--hours must be a number above 0 and at most {MAX_HOURS}."
        raise rest.ApiError(text, rest.EXIT_USAGE)
    return (datetime.now(timezone.utc) - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")


def events(
    watch: Annotated[
        bool, typer.Option("-w", "--watch", help="Print new events until interrupted.")
    ] = False,
    path: Annotated[
        str, typer.Option(help="Path of an object or a prefix of it, for example nodes/ID.")
    ] = "",
    kind: Annotated[str, typer.Option(help="Event kind, for example pool.created.")] = "",
    actor: Annotated[str, typer.Option(help="Name of the user.")] = "",
    since: Annotated[
        str, typer.Option(help="Earliest time, for example 2026-11-22T09:00:00Z.")
    ] = "",
    output: Output = "table",
) -> None:
    """List events, newest first."""
    filters = {
        key: value
        for key, value in {"path": path, "kind": kind, "actor": actor, "since": since}.items()
        if value
    }
    api = client()
    if not watch:
        show(
            api.request("GET", "events", None, limit=str(PAGE_SIZE), **filters)["items"],
            EVENT_COLUMNS,
            output,
            ["path", "id"],
        )
        return
    for row in watch_events(api):
        if (
            row["path"].startswith(path)
            and kind in ("", row["kind"])
            and actor in ("", row["actor"])
            and not print_structured(row, output)
        ):
            typer.echo("  ".join(cell(row, column) for column in EVENT_COLUMNS))


def watch_events(api: rest.Api) -> Iterator[dict[str, Any]]:
    """Yield events as they occur, without end.

    After a connection failure, reconnects with the last sequence number, so that no event is lost.
    """
    since, delay = "", 1.0
    while True:
        try:
            for token, kind, data in api.stream(
                "watch", kinds="event", **({"since": since} if since else {})
            ):
                since, delay = "" if kind == "resync" else token or since, 1.0
                if kind == "event" and data["row"]:
                    yield data["row"]
        except rest.ApplianceUnreachable:
            pass
        except rest.ApiError as error:
            if error.code != "gone":
                raise
            since = ""  # the server discarded the missed events; `busbar events` lists them
        time.sleep(delay)
        delay = min(delay * 2, 30.0)


@task_app.command("list")
def task_list(
    state: Annotated[str, typer.Option(help="Task state, for example running.")] = "",
    kind: Annotated[str, typer.Option(help="Task kind, for example node.enrol.")] = "",
    parent: Annotated[str, typer.Option(help="Id of the parent task.")] = "",
    output: Output = "table",
) -> None:
    """List tasks, newest first."""
    filters = {
        key: value
        for key, value in {"state": state, "kind": kind, "parent_id": parent}.items()
        if value
    }
    show(
        client().request("GET", "tasks", None, limit=str(PAGE_SIZE), **filters)["items"],
        TASK_COLUMNS,
        output,
        ["path", "parent_id", "cancellable", "id"],
    )


@task_app.command("log")
def task_log(task_id: str, output: Output = "table") -> None:
    """Show the log of a task."""
    api = client()
    show(
        list(reversed(api.items(f"tasks/{id_of(api, 'tasks', task_id)}/log"))),
        ["created_at", "progress_percent", "message"],
        output,
    )


@task_app.command("cancel")
def task_cancel(task_id: str) -> None:
    """Cancel a task. Depending on its kind, completed steps are rolled back or kept."""
    api = client()
    typer.echo(api.request("POST", f"tasks/{id_of(api, 'tasks', task_id)}/cancel")["state"])


SERIES = {"gpu": "gpus", "partition": "partitions", "session": "sessions", "project": "projects"}


def metrics(
    kind: Annotated[
        str,
        typer.Argument(
            help="gpu, partition, session or project.", autocompletion=lambda: list(SERIES)
        ),
    ],
    object_id: Annotated[str, typer.Argument(metavar="ID")],
    hours: Annotated[float, typer.Option(min=0.01, help="Length of the period, until now.")] = 1.0,
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric to show. Can be repeated.")
    ] = None,
    resolution: Annotated[
        int | None,
        typer.Option(help="Seconds for each point: 0, 10, 60 or 3600. Default: automatic."),
    ] = None,
    output: Output = "table",
) -> None:
    """Show minimum, mean, maximum and last value of metrics. `-o json` includes every point."""
    if kind not in SERIES:
        raise rest.ApiError(
            f"Invalid kind {kind}; expected one of: {', '.join(SERIES)}.", rest.EXIT_USAGE
        )
    since = start_of_period(hours)
    query = {"since": since} | (
        {"resolution_seconds": str(resolution)} if resolution is not None else {}
    )
    api, collection = client(), SERIES[kind]
    path = f"{collection}/{id_of(api, collection, object_id)}/metrics"
    response = api.request("GET", path, None, **query)
    response["items"] = [i for i in response["items"] if not metric or i["metric"] in metric]
    if not print_structured(response, output):
        show(
            [summarise(i) for i in response["items"]],
            ["metric", "minimum", "mean", "maximum", "last", "points"],
            "table",
        )


def summarise(series: dict[str, Any]) -> dict[str, Any]:
    """Return the statistics of a series; points without a value are not counted."""
    values = [p[1] for p in series["points"] if p[1] is not None]
    if not values:
        return {"metric": series["metric"], "points": 0}
    figures = {
        "minimum": min(values),
        "mean": sum(values) / len(values),
        "maximum": max(values),
        "last": values[-1],
    }
    return {
        "metric": series["metric"],
        **{k: f"{v:.6g}" for k, v in figures.items()},
        "points": len(values),
    }


def time_to_gpu(
    hours: Annotated[float, typer.Option(min=0.01, help="Length of the period, until now.")] = 24.0,
    project: Annotated[str, typer.Option(help="Name of a project.")] = "",
    output: Output = "table",
) -> None:
    """Show queueing times and the share of requests that started within their class's target."""
    since = start_of_period(hours)
    response = client().request(
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
        "queued",
        "longest_queued_seconds",
    ]
    show(response["items"], columns, output)


def top(
    every: Annotated[
        float,
        typer.Option(
            parser=parse_duration, metavar="DURATION", help="Time between updates, at least 0.5s."
        ),
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the tables once and exit.")] = False,
    lines: Annotated[int, typer.Option("-n", min=1, help="Maximum rows of each table.")] = 20,
) -> None:
    """Show the busiest GPUs and sessions, updated periodically."""
    api = client()
    if once:
        Console().print(render_top(api, lines))
        return
    with Live(render_top(api, lines), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(max(every, MIN_UPDATE_SECONDS))
            live.update(render_top(api, lines), refresh=True)


def render_top(api: rest.Api, lines: int) -> Group:
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
    session_columns = [
        "program",
        "client_address",
        "node",
        "memory_bytes",
        "launches",
        "compute_mode",
        "compute_enforcement",
        "compute_received_percent",
        "opened_at",
    ]
    return Group(
        head,
        "",
        table_of(gpus[:lines], gpu_columns),
        "",
        table_of(sessions[:lines], session_columns),
    )
