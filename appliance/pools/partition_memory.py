"""Memory of a share of a GPU, and whether a CUDA context leaves any of it to programs."""

from __future__ import annotations

GRANULARITY_BYTES = 2 << 20
"""Memory of partitions is a multiple of this."""


def share_bytes(memory_bytes: int, percent: int) -> int:
    """Return a percentage of the memory, rounded down to the granularity."""
    return memory_bytes * percent // 100 // GRANULARITY_BYTES * GRANULARITY_BYTES


def lack_of_context_room(context_bytes: int, memory_bytes: int) -> str:
    """Return why no program can use a partition with so much memory, or an empty string.

    The node would refuse its sessions. The text continues a sentence whose subject is the GPUs.
    """
    if not context_bytes or memory_bytes > context_bytes:
        return ""
    least = (context_bytes // GRANULARITY_BYTES + 1) * GRANULARITY_BYTES
    return (
        f"take {-(-context_bytes >> 20)} MiB for a CUDA context, and the request has "
        f"{memory_bytes >> 20} MiB (request at least {least >> 20} MiB)"
    )
