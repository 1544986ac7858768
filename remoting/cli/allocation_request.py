"""The options of commands that request an allocation, and the request that they make."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import OptionInfo

from remoting.cli import api as rest
from remoting.cli.amounts import MemorySize, duration_text, parse_whole_seconds
from remoting.cli.label_options import parse_labels
from remoting.cli.object_ids import id_of
from remoting.cli.output import size_text


@dataclass(frozen=True)
class AllocationRequest:
    """Values of the options; each field is an option of the command."""

    gpu_count: Annotated[
        int,
        typer.Option(
            "-n",
            "--gpus",
            min=1,
            max=16,
            help="Number of GPUs, on one or several nodes. NCCL does not work between nodes.",
        ),
    ] = 1
    percent: Annotated[
        int | None,
        typer.Option(
            "-p",
            "--percent",
            min=1,
            max=100,
            help="Share of memory and compute of each GPU. Default: 100 without --memory.",
        ),
    ] = None
    memory: MemorySize = None
    pool: Annotated[str, typer.Option(help="Name of the pool.")] = "default"
    project: Annotated[
        str,
        typer.Option(
            help="Name of the project. Default: `default`, or the only one in which you may"
            " request GPUs."
        ),
    ] = ""
    model: Annotated[str, typer.Option(help="Part of the GPU model's name.")] = ""
    label: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE label required on node or GPU. Can be repeated."),
    ] = None
    min_driver: Annotated[
        str, typer.Option(help="Minimum version of NVIDIA's driver, for example 550.54.")
    ] = ""
    min_cuda: Annotated[
        str, typer.Option(help="Minimum CUDA version of the driver, for example 12.4.")
    ] = ""
    same_node: Annotated[bool, typer.Option("--same-node", help="Place all GPUs on one node.")] = (
        False
    )
    exclusive: Annotated[bool, typer.Option("--exclusive", help="Allocate whole GPUs.")] = False
    mode: Annotated[
        str,
        typer.Option(
            help="Meaning of the percent: shared (in proportion to the others), capped (never"
            " more), guaranteed (at least) or exclusive (whole GPUs, as with --exclusive)."
        ),
    ] = "shared"
    priority: Annotated[
        int, typer.Option(min=0, max=200, help="Higher values are placed first.")
    ] = 50
    preemptible: Annotated[bool, typer.Option(help="The allocation may be preempted.")] = True
    lifetime: Annotated[
        int | None,
        typer.Option(
            parser=parse_whole_seconds,
            metavar="DURATION",
            help="Time after which the allocation ends, for example 8h or 90m.",
        ),
    ] = None
    reservation: Annotated[
        str, typer.Option(help="Id or name of a reservation of the project.")
    ] = ""
    allow_pending: Annotated[
        bool,
        typer.Option("--allow-pending", help="Wait also if no GPUs or limits permit the request."),
    ] = False

    def body(self, api: rest.Api) -> dict[str, Any]:
        """Return the body of POST /allocations.

        Raises ApiError for a label without a value, for a reservation that does not exist, and for
        --exclusive with another mode.
        """
        if self.exclusive and self.mode not in ("shared", "exclusive"):
            raise rest.ApiError(
                f"--exclusive allocates whole GPUs, and --mode {self.mode} a part. Omit one.",
                rest.EXIT_USAGE,
            )
        named = self.reservation
        project = {"project": self.project} if self.project else {}
        request = {
            "gpu_count": self.gpu_count,
            "pool": self.pool,
            "model": self.model,
            "selector": parse_labels(self.label or []),
            "same_node": self.same_node,
            "priority": self.priority,
            "preemptible": self.preemptible,
            "compute_mode": "exclusive" if self.exclusive else self.mode,
            "lifetime_seconds": self.lifetime,
            "reservation_id": (id_of(api, "reservations", named, **project) if named else None),
            "min_driver_version": self.min_driver,
            "min_cuda_version": self.min_cuda,
            "allow_pending": self.allow_pending,
        }
        return project | request | self._share(request["compute_mode"] == "exclusive")

    def _share(self, has_whole_gpus: bool) -> dict[str, int]:
        """Return the fields for the part of a GPU. Scripts may give one for whole GPUs, too."""
        share = {"percent": self.percent, "memory_bytes": self.memory}
        given = {name: value for name, value in share.items() if value is not None}
        if not has_whole_gpus:
            return given
        tell_ignored_share(given)
        return {}

    def arguments(self) -> list[str]:
        """Return the options of a command line that makes this request, without defaults."""
        found: list[str] = []
        for f in fields(self):
            value = getattr(self, f.name)
            if value in (f.default, []):
                continue
            option = option_of(f.name)
            if isinstance(value, bool):
                found.append(option if value else option.replace("--", "--no-", 1))
            for one in value if isinstance(value, list) else [value]:
                found += [] if isinstance(one, bool) else [option, f"{one}{UNITS.get(f.name, '')}"]
        return found


def tell_ignored_share(given: dict[str, Any]) -> None:
    """Print a notice if the share that is given with the mode exclusive is not the whole GPU."""
    if given.get("percent", 100) not in (0, 100) or given.get("memory_bytes"):
        text = "busbar: notice: exclusive allocates whole GPUs: percent and memory are ignored"
        print(text, file=sys.stderr)


UNITS = {"memory": "B", "lifetime": "s"}
"""Units of fields whose options need one."""


def option_of(field: str) -> str:
    """Return the long name of the option of a field."""
    (declared,) = (
        part.param_decls
        for part in get_type_hints(AllocationRequest, include_extras=True)[field].__metadata__
        if isinstance(part, OptionInfo)
    )
    return declared[-1] if declared else "--" + field.replace("_", "-")


DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print where the request would be placed. Allocates nothing."),
]


def print_outcome(api: rest.Api, request: AllocationRequest, **more: str) -> None:
    """Print the GPUs that the request would get now, or the reason for which it would wait."""
    outcome = api.request("POST", "allocations", request.body(api) | more, dry_run="true")
    tell_shorter_lifetime(request.lifetime, outcome)
    if not outcome["partitions"]:
        typer.echo(f"The request would wait: {outcome['waiting_reason']}")
    for p in outcome["partitions"]:
        typer.echo(
            f"{p['node']}/{p['gpu_index']}: {p['compute_percent']} % of the compute,"
            f" {size_text(p['memory_bytes'])}"
        )


def tell_shorter_lifetime(requested: int | None, allocation: dict[str, Any]) -> None:
    """Print a notice if the maximum of the pool has shortened the lifetime, in seconds."""
    granted = allocation["lifetime_seconds"]
    if requested and granted and granted < requested:
        text = (
            f"busbar: notice: the lifetime is {duration_text(granted)} instead of "
            f"{duration_text(requested)}: the maximum of pool {allocation['pool']}"
        )
        print(text, file=sys.stderr)


def takes_request(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of AllocationRequest to a command, which gets them as `request`."""
    # get_type_hints() would wrap annotations with the default None in Optional on Python 3.10, and
    # Typer would not find the options in them.
    options = inspect.signature(AllocationRequest, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters
    parameters = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in (*own.values(), *options.values())
        if p.name != "request"
    ]

    def with_options(**values: Any) -> None:
        given = {f.name: values.pop(f.name) for f in fields(AllocationRequest)}
        command(request=AllocationRequest(**given), **values)

    # Typer reads these attributes.
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    return with_options
