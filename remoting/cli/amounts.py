"""Amounts in command lines: sizes of memory and durations. Each needs a unit."""

from __future__ import annotations

import re
from typing import Annotated

import typer

SIZE_UNITS = {
    "B": 1,
    **{f"{prefix}B": 1000**n for n, prefix in enumerate("KMGT", 1)},
    **{f"{prefix}IB": 1024**n for n, prefix in enumerate("KMGT", 1)},
}
"""Bytes of each unit, in capitals: SI units are powers of 1000, IEC units are powers of 1024."""
SECONDS_IN = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+", re.ASCII)
PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)
MAX_LENGTH = 40
MAX_BYTES, MAX_WAIT_SECONDS = 1 << 50, 60
"""Limits of the appliance."""
LEAST_MIB, LEAST_BYTES = 256, 256 << 10
"""From these numbers on a size without a unit is taken as MiB or bytes: few GPUs have so many GiB
or MiB."""


def parse_size(text: str) -> int:
    """Return the bytes of a size such as 8GiB, 512MB or "1.5 TiB". Raises BadParameter.

    0 needs no unit.
    """
    given = text.strip()[:MAX_LENGTH]
    match = SIZE.fullmatch(given)
    unit = match[2].upper() if match else ""
    if match and (unit in SIZE_UNITS or (not unit and not float(match[1]))):
        size = int(float(match[1]) * SIZE_UNITS.get(unit, 1))
        if size > MAX_BYTES:
            raise typer.BadParameter(f'"{given}" is more than 1024TiB, the most.')
        return size
    if match and unit in ("", "K", "M", "G", "T", "KI", "MI", "GI", "TI"):
        meant = f"{match[1]}{unit[:1]}iB" if unit else proposed_size(match[1])
        raise typer.BadParameter(
            f'"{given}" has no unit. Did you mean "{meant}"? Units are B, kB, MB, GB '
            "and TB (powers of 1000), KiB, MiB, GiB and TiB (powers of 1024)."
        )
    raise typer.BadParameter(f'"{given}" is no size such as 8GiB or 512MB.')


def proposed_size(number: str) -> str:
    """Return a number with the unit that it probably has. Bytes get the largest that fits."""
    size = float(number)
    if size < LEAST_BYTES:
        return number + ("GiB" if size < LEAST_MIB else "MiB")
    power = next((n for n in (4, 3, 2, 1) if size % 1024**n == 0), 0)
    return f"{size / 1024**power:.0f}{'KMGT'[power - 1]}iB" if power else f"{number}B"


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration such as 90s, 8h or 1h30m. Raises BadParameter.

    0 needs no unit. A number, which only a default can be, is a number of seconds.
    """
    if isinstance(text, int | float):
        return text
    given = text.strip()[:MAX_LENGTH]
    if given == "0":
        return 0
    if DURATION.fullmatch(given):
        return sum(float(number) * SECONDS_IN[unit] for number, unit in PART.findall(given))
    if re.fullmatch(r"\d+(\.\d+)?", given, re.ASCII):
        raise typer.BadParameter(
            f'"{given}" has no unit. Did you mean "{given}s"? Units are s, m, h and d.'
        )
    raise typer.BadParameter(f'"{given}" is no duration such as 90s, 8h or 1h30m.')


def parse_short_wait(text: str | float) -> float:
    """Return the seconds of a wait of one request. Raises BadParameter also for too long a one."""
    seconds = parse_duration(text)
    if seconds > MAX_WAIT_SECONDS:
        raise typer.BadParameter(f'"{text}" is more than {MAX_WAIT_SECONDS}s, the longest wait.')
    return seconds


def parse_whole_seconds(text: str | float) -> int:
    """Return the seconds of a duration. Raises BadParameter also if they are no whole number."""
    seconds = parse_duration(text)
    if seconds != int(seconds):
        raise typer.BadParameter(f'"{text}" is no whole number of seconds.')
    return int(seconds)


def duration_text(seconds: int) -> str:
    """Return whole seconds as `parse_whole_seconds` takes them, such as 1d12h."""
    parts: list[str] = []
    for unit, length in reversed(SECONDS_IN.items()):
        count, seconds = divmod(seconds, length)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


MemorySize = Annotated[
    int | None,
    typer.Option(
        "-m",
        "--memory",
        parser=parse_size,
        metavar="SIZE",
        help="Memory of each GPU, for example 8GiB or 512MB. Compute in proportion.",
    ),
]
WaitOption = Annotated[
    float,
    typer.Option(
        "--wait",
        parser=parse_short_wait,
        metavar="DURATION",
        help="Time to wait until it is no longer changing, for example 30s; 60s at most.",
    ),
]
QueueTimeout = Annotated[
    float | None,
    typer.Option(
        parser=parse_duration,
        metavar="DURATION",
        help="Maximum time to wait in the queue, for example 30s or 2h.",
    ),
]
