"""The command `busbar smi`: the GPUs of this program, in the layouts of nvidia-smi."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from remoting.cli.api import EXIT_NOT_FOUND, EXIT_USAGE, ApiError

if TYPE_CHECKING:
    from remoting.cli.smi_readings import Readings


def smi(
    list_gpus: Annotated[
        bool, typer.Option("-L", "--list-gpus", help="List the GPUs, one a line.")
    ] = False,
    query_gpu: Annotated[
        str,
        typer.Option(
            "--query-gpu", metavar="FIELDS", help="Print these fields, separated by commas."
        ),
    ] = "",
    output_format: Annotated[
        str,
        typer.Option("--format", help="Format of --query-gpu: csv[,noheader][,nounits]."),
    ] = "csv",
    gpu: Annotated[
        str, typer.Option("-i", "--id", help="Show one GPU: its index or its UUID.")
    ] = "",
    loop: Annotated[
        int | None, typer.Option("-l", "--loop", min=1, help="Repeat after this many seconds.")
    ] = None,
) -> None:
    """Show the GPUs of this program, as nvidia-smi does: busbar run -p 10 -- busbar smi"""
    from remoting.cli import smi_layout, smi_readings  # other commands start without pynvml

    if list_gpus and query_gpu:
        raise ApiError("Give either -L or --query-gpu.", EXIT_USAGE)
    if query_gpu:
        smi_layout.field_names(query_gpu)
        smi_layout.csv_options(output_format)
    while True:
        readings = selected(smi_readings.read_all(), gpu)
        if query_gpu:
            text = smi_layout.csv_lines(readings, query_gpu, output_format)
        else:
            text = smi_layout.listing(readings) if list_gpus else smi_layout.table(readings)
        typer.echo(text, nl=False)
        if loop is None:
            return
        time.sleep(loop)


def selected(readings: Readings, wanted: str) -> Readings:
    """Return the readings of one GPU, or all without a wish. Raises ApiError if there is none."""
    if not wanted:
        return readings
    found = tuple(g for g in readings.gpus if wanted in (str(g.index), g.uuid))
    if not found:
        raise ApiError(f'No GPU "{wanted}". List them with: busbar smi -L', EXIT_NOT_FOUND)
    return replace(readings, gpus=found)
