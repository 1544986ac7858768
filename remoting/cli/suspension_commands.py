"""The commands `busbar allocation suspend` and `resume`, and how others show a suspension."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.amounts import parse_duration
from remoting.cli.object_ids import AllocationName, own_allocation
from remoting.cli.output import Output, client, print_structured

STEP_SECONDS = 50.0
"""Longest wait of one request; the appliance permits 60 s."""
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        parser=parse_duration,
        metavar="DURATION",
        help="Time to wait for the end, for example 2m. Without it the command returns at once.",
    ),
]


def suspend(allocation: AllocationName, wait: Wait = 0.0, output: Output = "table") -> None:
    """Move the GPU memory of an allocation's programs to host memory.

    They go on with their next call, as if it took longer, or after `resume`. The allocation keeps
    its GPUs: the memory stays reserved for it. Programs get 30 s to end their work on the GPU; if
    one does not, all go on. With --wait the exit status is 1 then, and 6 when the time is over.
    """
    row = change(allocation, "suspend", wait)
    show(row, output)
    if wait:
        check(row, {"suspended", "waiting"})


def resume(allocation: AllocationName, wait: Wait = 0.0, output: Output = "table") -> None:
    """Move the GPU memory of a suspended allocation back before its programs need it."""
    row = change(allocation, "resume", wait)
    show(row, output)
    if wait:
        check(row, {""})


def change(name: str, action: str, wait: float) -> dict[str, Any]:
    """Request the change and wait for its end, or until the time is over."""
    api, until = client(), time.monotonic() + wait
    path = f"allocations/{own_allocation(api, name)}"
    allocation = api.request("POST", f"{path}/{action}", wait=str(min(wait, STEP_SECONDS)))
    while state_of(allocation) in ("suspending", "resuming"):
        left = until - time.monotonic()
        if left <= 0:
            break
        allocation = api.request("GET", path, None, wait=str(min(left, STEP_SECONDS)))
    return allocation


def state_of(allocation: dict[str, Any]) -> str:
    """Return the state of the suspension; empty without one."""
    suspension = allocation["suspension"]
    return str(suspension["state"]) if suspension else ""


def show(allocation: dict[str, Any], output: str) -> None:
    if not print_structured(allocation, output):
        typer.echo(describe(allocation))


def describe(allocation: dict[str, Any]) -> str:
    suspension = allocation["suspension"]
    if not suspension:
        return str(allocation["state"])
    text = str(suspension["state"])
    if suspension["released_bytes"]:
        text += f", {suspension['released_bytes'] >> 20} MiB in host memory"
    return f"{text}: {suspension['reason']}" if suspension["reason"] else text


def check(allocation: dict[str, Any], expected: set[str]) -> None:
    """Raise ApiError if the change has failed, or is not over."""
    state = state_of(allocation)
    if state in ("suspending", "resuming"):
        raise rest.ApiError("The time to wait is over.", rest.EXIT_TIMEOUT)
    if state not in expected:
        raise rest.ApiError(f"The allocation is {describe(allocation)}.")
