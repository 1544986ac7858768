"""Faults of simulated nodes, which raise alarms: each at a fixed place and in a fixed rhythm."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.demo_fleet.hardware import Fault

NONE = Fault()
XID_MEMORY, XID_APPLICATION = 48, 13


@dataclass(frozen=True)
class Place:
    """A fault of one GPU, during the first `seconds` of each `period`."""

    node: int
    gpu: int
    fault: Fault
    period: float = 3600
    seconds: float = 3600

    def is_on(self, now: float) -> bool:
        return now % self.period < self.seconds


PLACES = (
    Place(1, 3, Fault(uncorrected_errors=2)),
    Place(3, 5, Fault(corrected_errors=1412)),
    Place(4, 6, Fault(least_celsius=95), 3600, 1500),
    Place(7, 0, Fault(xid=XID_MEMORY), 7200, 1200),
    Place(11, 2, Fault(xid=XID_APPLICATION), 2700, 600),
)
OFFLINE_NODE, OFFLINE_PERIOD, OFFLINE_SECONDS = 6, 3600.0, 240.0


def fault_of(nodes: int, node: int, gpu: int, now: float) -> Fault:
    """Return the fault of a GPU at this time. In a small fleet the places move to other nodes."""
    found = (p for p in PLACES if p.node % nodes == node and p.gpu == gpu and p.is_on(now))
    return next((p.fault for p in found), NONE)


def is_offline(nodes: int, node: int, now: float) -> bool:
    """Return whether the node has no connection. Small fleets are always online."""
    return nodes > OFFLINE_NODE and node == OFFLINE_NODE and now % OFFLINE_PERIOD < OFFLINE_SECONDS
