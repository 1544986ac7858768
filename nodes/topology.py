"""How the GPUs of one machine reach each other, in the words of `nvidia-smi topo -m`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pynvml

from nodes.optional import optional, text

ANCESTORS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PSB",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
"""Same board, one PCIe switch, several, a host bridge, bridges of one NUMA node, between NUMA nodes."""
SWITCH = "switch"


def links(handles: Sequence[Any]) -> list[dict[int, str]]:
    """Of each GPU: the others' index to NV and the number of NVLinks between them, directly or over switches, or else to how PCIe goes. Empty where NVML does
    not say."""
    buses = [
        optional(lambda h=h: text(pynvml.nvmlDeviceGetPciInfo(h).busId)) or "" for h in handles
    ]  # type: ignore[misc]
    ends = [nvlinks(h) for h in handles]
    found: list[dict[int, str]] = [{} for _ in handles]
    for a, first in enumerate(handles):
        for b, second in enumerate(handles):
            if a != b and (way := between(ends[a], ends[b], buses[b]) or ancestor(first, second)):
                found[a][b] = way
    return found


def nvlinks(handle: Any) -> Counter[str]:
    """Where its links that are up end: bus of a GPU, or `switch`, and how many."""
    found: Counter[str] = Counter()
    for i in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if (
            optional(lambda i=i: pynvml.nvmlDeviceGetNvLinkState(handle, i))
            != pynvml.NVML_FEATURE_ENABLED
        ):  # type: ignore[misc]
            continue
        kind = optional(lambda i=i: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, i))  # type: ignore[misc]
        bus = optional(lambda i=i: text(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, i).busId))  # type: ignore[misc]
        found[SWITCH if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH else bus or ""] += 1
    return found


def between(mine: Counter[str], theirs: Counter[str], bus: str) -> str:
    count = mine[bus] if bus else 0
    count += min(mine[SWITCH], theirs[SWITCH])
    return f"NV{count}" if count else ""


def ancestor(first: Any, second: Any) -> str:
    return ANCESTORS.get(
        optional(lambda: pynvml.nvmlDeviceGetTopologyCommonAncestor(first, second)), ""
    )
