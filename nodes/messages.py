"""Content of the agent's messages, within the limits of the protocol."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from nodes.gpus import Gpu, Nvml
from nodes.launcher_control import SessionList, SessionReport
from nodes.protocol import fleet_pb2, limits
from nodes.protocol.limits import printable
from nodes.version import AGENT_VERSION

REPORT_BYTES = limits.MAX_MESSAGE_BYTES - 1024
"""Size of the sessions in a report; the rest of the message is smaller than 1 KiB."""
MAX_PREFIX_BYTES = 4
"""Tag and length of a session."""
NOT_ENFORCED = {
    "user": "the spawner may not give cages users of their own",
    "cgroup": "the spawner may not make control groups",
    "seccomp": "the kernel refused the filter",
    "no_new_privs": "the kernel refused it",
    "resource_limits": "the kernel refused them",
    "file_system": "the spawner may not make namespaces",
    "network": "the spawner may not make namespaces",
    "processes": "the spawner may not make namespaces",
    "landlock": "the kernel has no Landlock",
}
COMPUTE_LIMIT = {
    "turns": "enforced",
    "alone": "not needed: no other allocation uses the GPU",
    "sliced": "time slicing: a turn did not end in 500 ms",
    "unenforced": "unenforced: the session has no connection to the launcher",
}
"""By the name of the enforcement. The appliance shows the greatest text for an allocation."""


def isolation_of(s: SessionReport) -> dict[str, str]:
    """Return "enforced" or the reason why not, for each isolation mechanism."""
    out = {name: "enforced" if on else NOT_ENFORCED[name] for name, on in s.isolation.items()}
    out["memory_limit"] = "enforced"
    out["compute_limit"] = COMPUTE_LIMIT[s.enforcement]
    return out


def encode_inventory(
    nvml: Nvml,
    gpus: Sequence[Gpu],
    addresses: Sequence[str],
    port: int,
    isolation: Sequence[str] = (),
) -> fleet_pb2.Inventory:
    return fleet_pb2.Inventory(
        agent_version=AGENT_VERSION,
        driver_version=printable(nvml.driver_version(), limits.MAX_NAME),
        cuda_version=nvml.cuda_version(),
        operating_system=printable(platform.platform(), limits.MAX_TEXT),
        software=nvml.software(),
        isolation=isolation,
        endpoints=[
            fleet_pb2.Endpoint(address=printable(a, limits.MAX_ADDRESS), port=port)
            for a in addresses[: limits.MAX_ENDPOINTS]
        ],
        gpus=[encode_gpu(g) for g in gpus[: limits.MAX_GPUS]],
    )


def encode_gpu(g: Gpu) -> fleet_pb2.Gpu:
    return fleet_pb2.Gpu(
        uuid=g.uuid.bytes,
        index=g.index,
        model=printable(g.model, limits.MAX_NAME),
        memory_bytes=g.memory_bytes,
        compute_capability=g.compute_capability,
        pci_bus_id=printable(g.pci_bus_id, limits.MAX_SHORT),
        mig=g.mig,
        links=dict(g.links),
    )


def encode_report(listed: SessionList) -> fleet_pb2.Report:
    """Return a report of all open sessions and of the newest ended ones, within the limits."""
    order = sorted(listed.sessions, key=lambda s: (s.state == "closed", -s.opened_seconds))
    report, room = fleet_pb2.Report(generation=listed.generation), REPORT_BYTES
    for encoded in map(encode_session, order[: limits.MAX_SESSIONS]):
        room -= encoded.ByteSize() + MAX_PREFIX_BYTES
        if room < 0:
            break
        report.sessions.append(encoded)
    return report


def encode_session(s: SessionReport) -> fleet_pb2.Session:
    """Return a session within the limits, whatever the program and its session server claim."""
    return fleet_pb2.Session(
        id=s.session_id.bytes,
        allocation_id=s.allocation_id.bytes,
        state=s.state,
        pid=min(s.pid, limits.MAX_PID),
        client_pid=min(s.client_pid, limits.MAX_PID),
        client_address=printable(s.client_address, limits.MAX_NAME),
        program=printable(s.program, limits.MAX_NAME),
        isolation=isolation_of(s),
        memory_bytes=min(s.memory_bytes, limits.MAX_NUMBER),
        launches=min(s.launches, limits.MAX_NUMBER),
        bytes_in=min(s.bytes_in, limits.MAX_NUMBER),
        bytes_out=min(s.bytes_out, limits.MAX_NUMBER),
        end_reason=printable(s.reason, limits.MAX_TEXT),
        opened_seconds=min(s.opened_seconds, limits.MAX_SECONDS),
        refused_calls=[
            printable(name, limits.MAX_NAME) for name in s.refused_calls[: limits.MAX_REFUSED_CALLS]
        ],
        partition_bytes=[min(used, limits.MAX_NUMBER) for used in s.partition_bytes],
    )
