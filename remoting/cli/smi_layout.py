"""Output of `busbar smi` in the layouts of nvidia-smi."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from remoting.cli.api import EXIT_USAGE, ApiError
from remoting.cli.smi_readings import Gpu, Readings

RULE = f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+"
WIDE = f"+{'-' * 89}+"
MIB = 1 << 20
ABSENT = "[N/A]"
UNITS = {"MiB", "%", "W"}


def mib(value: int) -> str:
    return f"{value // MIB} MiB"


def watts(milliwatts: int | None) -> str:
    return "" if milliwatts is None else f"{milliwatts / 1000:.2f} W"


def optional(value: int | None, unit: str = "") -> str:
    return "" if value is None else f"{value}{unit}"


Field = Callable[[Readings, Gpu], str]
FIELDS: dict[str, Field] = {
    "index": lambda r, g: str(g.index),
    "name": lambda r, g: g.name,
    "uuid": lambda r, g: g.uuid,
    "count": lambda r, g: str(len(r.gpus)),
    "driver_version": lambda r, g: r.driver_version,
    "pci.bus_id": lambda r, g: g.bus_id,
    "pstate": lambda r, g: optional(g.performance_state) and f"P{g.performance_state}",
    "fan.speed": lambda r, g: optional(g.fan_percent, " %"),
    "temperature.gpu": lambda r, g: optional(g.temperature_celsius),
    "power.draw": lambda r, g: watts(g.power_milliwatts),
    "power.limit": lambda r, g: watts(g.power_limit_milliwatts),
    "memory.total": lambda r, g: mib(g.memory_total_bytes),
    "memory.used": lambda r, g: mib(g.memory_used_bytes),
    "memory.free": lambda r, g: mib(g.memory_total_bytes - g.memory_used_bytes),
    "utilization.gpu": lambda r, g: optional(g.gpu_percent, " %"),
    "utilization.memory": lambda r, g: optional(g.memory_percent, " %"),
}
ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
FIELD_UNITS = {"fan.speed": "%", "power.draw": "W", "power.limit": "W"} | {
    name: "MiB" if name.startswith("memory.") else "%"
    for name in FIELDS
    if name.startswith(("memory.", "utilization."))
}


def field_names(query: str) -> list[str]:
    """Return the names of a --query-gpu. Raises ApiError for an unknown one."""
    names = [name.strip() for name in query.split(",")]
    for name in names:
        if ALIASES.get(name, name) not in FIELDS:
            known = ", ".join(FIELDS)
            raise ApiError(f'"{name}" is not a field of --query-gpu. Fields: {known}', EXIT_USAGE)
    return names


def csv_options(text: str) -> set[str]:
    """Return the options of a --format. Raises ApiError for another format than csv."""
    kind, *options = (part.strip() for part in text.split(","))
    if kind != "csv" or set(options) - {"noheader", "nounits"}:
        raise ApiError(f"--format is csv[,noheader][,nounits] (was: {text}).", EXIT_USAGE)
    return set(options)


def csv_lines(readings: Readings, query: str, format_text: str) -> str:
    """Return the values of --query-gpu, one line a GPU, separated by a comma and a space."""
    names, options = field_names(query), csv_options(format_text)
    rows: list[list[str]] = []
    if "noheader" not in options:
        units = [FIELD_UNITS.get(ALIASES.get(n, n), "") for n in names]
        show = "nounits" not in options
        rows.append([f"{n} [{u}]" if u and show else n for n, u in zip(names, units, strict=True)])
    for gpu in readings.gpus:
        values = [FIELDS[ALIASES.get(n, n)](readings, gpu) or ABSENT for n in names]
        rows.append([without_unit(v) if "nounits" in options else v for v in values])
    return "".join(joined(row) for row in rows)


def without_unit(value: str) -> str:
    number, _, unit = value.rpartition(" ")
    return number if unit in UNITS else value


def joined(row: Sequence[str]) -> str:
    cells = []
    for value in row:
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow([value])
        cells.append(out.getvalue())
    return ", ".join(cells) + "\n"


def listing(readings: Readings) -> str:
    """Return the output of -L."""
    return "".join(f"GPU {g.index}: {g.name} (UUID: {g.uuid})\n" for g in readings.gpus)


def cells(columns: Sequence[str], widths: Sequence[int] = (41, 24, 22)) -> str:
    padded = (f"{text[: w - 1]:<{w}}" for text, w in zip(columns, widths, strict=True))
    return f"|{'|'.join(padded)}|"


def table(readings: Readings) -> str:
    """Return the overview: GPUs with their use, and processes."""
    return "\n".join(table_lines(readings)) + "\n"


def table_lines(readings: Readings) -> Iterator[str]:
    now = datetime.now().astimezone()
    yield now.strftime("%a %b %e %H:%M:%S %Y")
    yield WIDE
    versions = (
        f"Driver Version: {readings.driver_version:<15} CUDA Version: {readings.cuda_version}"
    )
    yield cells([f" BUSBAR-SMI   {versions}"], [89])
    yield RULE
    yield cells([" GPU  Name                Persistence-M", " Bus-Id", " Volatile Uncorr. ECC"])
    yield cells([" Fan  Temp  Perf         Pwr:Usage/Cap", "          Memory-Usage", " GPU-Util"])
    yield RULE.replace("-", "=").replace("+", "|")
    for gpu in readings.gpus:
        yield from gpu_lines(gpu)
        yield RULE
    yield ""
    yield from process_lines(readings)


def gpu_lines(gpu: Gpu) -> Iterator[str]:
    mode = "N/A" if gpu.persistence_mode is None else "On" if gpu.persistence_mode else "Off"
    yield cells([f" {gpu.index:>3}  {gpu.name[:26]:<26} {mode:>6}", f" {gpu.bus_id}", " N/A"])
    fan, use = optional(gpu.fan_percent, "%") or "N/A", optional(gpu.gpu_percent, "%") or "N/A"
    heat = optional(gpu.temperature_celsius, "C") or "N/A"
    state = "N/A" if gpu.performance_state is None else f"P{gpu.performance_state}"
    power = " / ".join(
        "N/A" if v is None else f"{v // 1000}W"
        for v in (gpu.power_milliwatts, gpu.power_limit_milliwatts)
    )
    memory = f"{gpu.memory_used_bytes // MIB}MiB / {gpu.memory_total_bytes // MIB}MiB"
    yield cells([f" {fan:>3} {heat:>5}  {state:>4} {power:>19}", f" {memory:>21}", f" {use:>8}"])


def process_lines(readings: Readings) -> Iterator[str]:
    yield WIDE
    yield cells([" Processes:"], [89])
    yield cells([f"  GPU {'PID':>10}   Type   {'Process name':<47} {'GPU Memory':>12}"], [89])
    yield WIDE.replace("-", "=").replace("+", "|")
    rows = [(gpu.index, process) for gpu in readings.gpus for process in gpu.processes]
    for index, process in rows:
        used = "N/A" if process.memory_bytes is None else f"{process.memory_bytes // MIB}MiB"
        name = process.name if len(process.name) <= 47 else f"...{process.name[-44:]}"
        yield cells([f"  {index:>3} {process.pid:>10}      C   {name:<47} {used:>12}"], [89])
    if not rows:
        yield cells(["  No running processes found"], [89])
    yield WIDE
