"""Links between the GPUs of one machine, in the notation of `nvidia-smi topo -m`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pynvml

from nodes.nvml import decode_text, pci_bus_id, read_optional

# Nearest common ancestor on PCIe: same board, one PCIe switch, several switches, a host bridge,
# host bridges of one NUMA node, different NUMA nodes.
PCIE_LINKS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PSB",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
SWITCH = "switch"


def read_links(handles: Mapping[int, Any]) -> dict[int, dict[int, str]]:
    """Return for the index of each GPU the index of each other GPU and the link to it.

    A link is NV and the number of NVLinks, directly or through switches, or else the kind of the
    PCIe path. A link that NVML does not report is left out.
    """
    buses = {i: read_optional(pci_bus_id, h) or "" for i, h in handles.items()}
    nvlinks = {i: read_nvlinks(h) for i, h in handles.items()}
    found: dict[int, dict[int, str]] = {i: {} for i in handles}
    for a, first in handles.items():
        for b, second in handles.items():
            if a == b:
                continue
            link = nvlink_between(nvlinks[a], nvlinks[b], buses[b]) or pcie_link(first, second)
            if link:
                found[a][b] = link
    return found


def read_nvlinks(handle: Any) -> Counter[str]:
    """Count the active NVLinks of a GPU by remote end: PCI bus id of a GPU, or `switch`."""
    found: Counter[str] = Counter()
    for i in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = read_optional(pynvml.nvmlDeviceGetNvLinkState, handle, i)
        if state != pynvml.NVML_FEATURE_ENABLED:
            continue
        kind = read_optional(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, i)
        bus = read_optional(remote_bus_id, handle, i) or ""
        found[SWITCH if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH else bus] += 1
    return found


def remote_bus_id(handle: Any, link: int) -> str:
    return decode_text(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)


def nvlink_between(first: Counter[str], second: Counter[str], second_bus: str) -> str:
    """Return NV and the number of NVLinks between two GPUs; empty if there are none."""
    count = first[second_bus] if second_bus else 0
    count += min(first[SWITCH], second[SWITCH])
    return f"NV{count}" if count else ""


def pcie_link(first: Any, second: Any) -> str:
    """Return the kind of the PCIe path between two GPUs; empty if NVML does not report it."""
    ancestor = read_optional(pynvml.nvmlDeviceGetTopologyCommonAncestor, first, second)
    return PCIE_LINKS.get(ancestor, "")
