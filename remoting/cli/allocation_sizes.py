"""The size of an allocation, as tables, sheets and lists print it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from remoting.cli.output import size_text

Row = dict[str, Any]


def with_size(row: Row) -> Row:
    """Return an allocation with `percent` and `memory` as tables show them.

    A request has one of them as 0 if it is in proportion to the other. The partitions have what is
    granted, during a resize of the size before; an alternative has none.
    """
    partitions = () if row.get("resize") else row.get("partitions", ())
    percent, memory = row["percent"], row["memory_bytes"]
    return row | {
        "percent": percent or in_proportion(p["compute_percent"] for p in partitions),
        "memory": (
            size_text(memory)
            if memory
            else in_proportion(size_text(p["memory_bytes"]) for p in partitions)
        ),
    }


def in_proportion(granted: Iterable[object]) -> str:
    return ", ".join(["in proportion", *dict.fromkeys(map(str, granted))])


def share_of_gpus(row: Row) -> str:
    """Return which share of which GPUs an allocation has, or of how many it requests."""
    granted = [
        f"{p['compute_percent']} % of {p['node']}/{p['gpu_index']}"
        for p in row.get("partitions", ())
    ]
    if granted:
        return ", ".join(granted)
    share = f"{row['percent']} %" if row["percent"] else size_text(row["memory_bytes"])
    return f"{share} of {row['gpu_count']} GPU" + ("" if row["gpu_count"] == 1 else "s")
