"""Comparison of sizes and memory after a kill: clients, REST, capacity of the GPUs, and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from appliance.allocations.placement import ComputeMode, Request, partition_size
from tests.load.held_memory import HeldMemory, Key

Row = dict[str, Any]
SIZE_FIELDS = ("percent", "memory_bytes", "compute_mode")
RUNNING = ("active", "suspended")


def book_differences(
    rows: Mapping[str, Row],
    wanted: Mapping[str, Row],
    capacities: Iterable[Row],
    sessions: Iterable[Row],
    memory: Iterable[HeldMemory],
    gpus: Mapping[str, Row],
) -> list[str]:
    """Return the differences between the books.

    `rows` are allocations by id, `wanted` the sizes that clients were promised, `capacities` and
    `sessions` those of REST, `memory` that of each node, and `gpus` have `uuid` and `memory_bytes`
    by id.
    """
    ledger = {key: m for m in memory for key in m.held}
    found = [*capacity_differences(rows.values(), capacities)]
    for i, row in rows.items():
        if row["state"] in RUNNING:
            problems = [*over_problems(row, ledger, gpus), *size_problems(row, wanted.get(i), gpus)]
            found += [f"allocation {i}: {problem}" for problem in problems]
    return found + session_differences(rows, sessions, ledger)


def capacity_differences(rows: Iterable[Row], capacities: Iterable[Row]) -> Iterator[str]:
    """Yield the nodes of which more or less is taken than their partitions occupy."""
    percent, occupied = Counter[str](), Counter[str]()
    for p in (p for row in rows for p in row["partitions"]):
        percent[p["node"]] += p["compute_percent"]
        occupied[p["node"]] += p["memory_bytes"] + p["over_bytes"]
    for c in capacities:
        name = c["name"]
        taken = round(100 * c["gpus"]["allocated"]), round(c["memory_bytes"]["allocated"])
        if taken != (percent[name], occupied[name]):
            yield (
                f"node {name}: {taken[0]} % and {taken[1]} bytes are taken, its partitions occupy "
                f"{percent[name]} % and {occupied[name]} bytes"
            )


def over_problems(
    row: Row, ledger: Mapping[Key, HeldMemory], gpus: Mapping[str, Row]
) -> Iterator[str]:
    """Yield what is wrong about the memory that an allocation holds beyond its size."""
    for p in row["partitions"]:
        key = row["id"].replace("-", ""), gpus[p["gpu_id"]]["uuid"]
        memory = ledger.get(key)
        over = memory.over_bytes(key) if memory else 0
        if p["over_bytes"] != over:
            yield f"REST shows {p['over_bytes']} bytes over its size, its node {over}"


def size_problems(row: Row, wanted: Row | None, gpus: Mapping[str, Row]) -> Iterator[str]:
    """Yield what is wrong about the size and mode of an allocation. `wanted` None: not known."""
    present = {name: row[name] for name in SIZE_FIELDS}
    if wanted is not None and present != wanted:
        yield f"its size is {present}, its client was promised {wanted}"
    over = sum(p["over_bytes"] for p in row["partitions"])
    state = row["resize"] and row["resize"]["state"]
    if state == "queued":
        return
    if state != ("shrinking" if over else None):
        yield f"its resize is {state}, and {over} bytes are over its size"
    if row["granted_compute_mode"] != row["compute_mode"]:
        yield f"its mode is {row['granted_compute_mode']} in place of {row['compute_mode']}"
    mode = ComputeMode(row["compute_mode"])
    request = Request(1, row["percent"], row["memory_bytes"], mode)
    for p in row["partitions"]:
        size = p["compute_percent"], p["memory_bytes"]
        expected = partition_size(gpus[p["gpu_id"]]["memory_bytes"], request)
        if size != expected:
            yield f"it has {size[0]} % and {size[1]} bytes in place of {expected}"


def session_differences(
    rows: Mapping[str, Row], sessions: Iterable[Row], ledger: Mapping[Key, HeldMemory]
) -> list[str]:
    """Return the differences between the memory of sessions in REST and on their nodes."""
    held: Counter[str] = Counter()
    for key, memory in ledger.items():
        held[key[0]] += memory.held[key]
    shown = {s["allocation_id"].replace("-", ""): s["memory_bytes"] for s in sessions}
    running = {i.replace("-", "") for i, row in rows.items() if row["state"] in RUNNING}
    return [
        f"allocation {i}: its session has {shown.get(i)} bytes, its node {held[i]}"
        for i in sorted(running | shown.keys())
        if shown.get(i) != held[i]
    ]
