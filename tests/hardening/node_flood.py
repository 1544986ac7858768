"""Generator of reports of hostile nodes, in a process of its own on one core.

Usage: python -m tests.hardening.node_flood SECONDS SESSIONS <NODES.json

Each node reports the same sessions of its allocation with other counters, as fast as the appliance
reads. Prints one line of JSON: the number of reports that were sent.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator

import grpc

from nodes.protocol import fleet_pb2
from tests.hardening.hostile_nodes import Credentials
from tests.system.enrolled_agent import CONNECT

FIRST_SEQUENCE = 1 << 20
"""Greater than those of the messages that prepared the node."""
END_SECONDS = 10.0


class HostileNode:
    """A node with a certificate. `sent` counts its reports, `ends` why its streams ended."""

    def __init__(self, credentials: Credentials, sessions: int) -> None:
        self.credentials, self.sent = credentials, 0
        self.ends: Counter[str] = Counter()
        ids = [uuid.uuid4().bytes for _ in range(sessions)]
        self.reports = [self.report(ids, counter) for counter in (1, 2)]

    def report(self, ids: list[bytes], counter: int) -> fleet_pb2.Report:
        allocation = uuid.UUID(self.credentials["allocation_id"]).bytes
        return fleet_pb2.Report(
            generation=1,
            sessions=[
                fleet_pb2.Session(
                    id=i,
                    allocation_id=allocation,
                    state="running",
                    program="python train.py",
                    client_address="10.0.0.1:40000",
                    memory_bytes=counter << 20,
                    launches=counter,
                    bytes_in=counter,
                )
                for i in ids
            ],
        )

    def messages(self, end: float) -> Iterator[bytes]:
        for sequence in itertools.count(FIRST_SEQUENCE):
            if time.monotonic() > end:
                return
            report = self.reports[sequence % 2]
            message = fleet_pb2.AgentMessage(boot_id="b", sequence=sequence, report=report)
            yield message.SerializeToString()
            self.sent += 1

    def run(self, seconds: float) -> None:
        """Send reports, and connect again when the appliance ends the stream."""
        c, end = self.credentials, time.monotonic() + seconds
        keys = (c["ca_pem"].encode(), c["key"].encode(), c["agent_pem"].encode())
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        while time.monotonic() < end:
            with grpc.secure_channel(
                c["address"], grpc.ssl_channel_credentials(*keys), options
            ) as channel:
                connect = channel.stream_stream(CONNECT, None, None)
                try:
                    left = max(end - time.monotonic(), 0.1)
                    for _ in connect(self.messages(end), timeout=left):
                        pass
                except grpc.RpcError as error:
                    self.ends[error.code().name] += 1
                    time.sleep(0.1)


def main() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    seconds, sessions = float(sys.argv[1]), int(sys.argv[2])
    nodes = [HostileNode(c, sessions) for c in json.load(sys.stdin)]
    threads = [threading.Thread(target=n.run, args=(seconds,), daemon=True) for n in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + END_SECONDS)
    ends = sum((n.ends for n in nodes), Counter())
    print(json.dumps({"reports": sum(n.sent for n in nodes), "ends": ends}))


if __name__ == "__main__":
    main()
