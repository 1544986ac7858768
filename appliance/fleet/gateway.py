"""The gateway process: gRPC streams of the agents.

TLS, HTTP/2 and protobuf of a thousand nodes must not contend for the GIL of other processes. The
gateway has no database and no key except the server's. It ends with the controller.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import grpc
import uvloop

from appliance.fleet.agent_port import AgentPort, listen
from appliance.fleet.certificate_files import CertificateFiles
from appliance.fleet.connections import Controller, SampleClient, Stream
from appliance.fleet.gateway_options import PORT_TAKEN, Options
from appliance.fleet.servicer import FleetServicer
from appliance.ipc.frames import Frame, Kind
from appliance.runtime import descriptors
from appliance.runtime.connection_table import ConnectionLimits
from nodes.log_format import log_to_stderr
from nodes.protocol import fleet_pb2_grpc, limits

MAX_STREAMS = 4
HANDSHAKE_MILLISECONDS = 300_000
"""By the clock. The agent port ends silent connections earlier, by a time of its own."""
DESCRIPTORS_PER_CONNECTION = 4
"""The agent's socket, both ends of the Unix socket to gRPC, and a reserve."""
SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", limits.MAX_MESSAGE_BYTES),
    ("grpc.http2.bdp_probe", 0),  # a stream that is not read has at most 64 KiB in memory
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MILLISECONDS),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
)


def server_credentials(options: Options) -> grpc.ServerCredentials:
    """Return credentials that follow the files: each handshake uses the newest ones."""
    files = CertificateFiles(*map(Path, (options.certificate, options.key, options.authority)))

    def configuration(contents: tuple[bytes, ...] | None) -> Any:
        if contents is None:
            return None
        certificate, key, authority = contents
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)

    return grpc.dynamic_ssl_server_credentials(
        configuration(files.contents()),
        lambda: configuration(files.changed()),
        require_client_authentication=True,
    )


def open_port(options: Options) -> AgentPort:
    """Bind the agents' port. Raises SystemExit if it is in use."""
    connection_limits = ConnectionLimits(
        total=min(options.max_connections, descriptors.limit() // DESCRIPTORS_PER_CONNECTION),
        anonymous=options.max_anonymous_connections,
        anonymous_per_address=options.max_anonymous_connections_per_address,
    )
    try:
        return AgentPort(listen(options.address, options.port), connection_limits)
    except OSError as error:
        raise SystemExit(PORT_TAKEN) from error


async def serve(options: Options) -> None:
    """Serve agents until the controller closes the connection, then end this process."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=options.pipe))
    streams: dict[bytes, Stream] = {}
    samples = SampleClient(bytes.fromhex(options.samples_socket))
    controller = Controller(reader, writer, streams, samples)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    port = open_port(options)
    fleet_pb2_grpc.add_FleetServicer_to_server(
        FleetServicer(controller, streams, options.heartbeat_seconds, port), server
    )
    folder, name = os.path.split(options.socket)
    inner = f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_DIRECTORY)}/{name}"
    server.add_secure_port(f"unix:{inner}", server_credentials(options))
    await server.start()
    port.start(inner)
    controller.send(Frame(Kind.READY))
    tasks = [
        asyncio.create_task(work)
        for work in (
            controller.send_samples(),
            controller.send_heartbeats(),
            controller.read(),
            port.accept(),
            port.close_expired(),
        )
    ]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    # Connections would take seconds to close, and the next gateway needs the port.
    os._exit(0)


def main() -> None:
    log_to_stderr()
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, signal.SIG_IGN)  # the controller decides when this process ends
    uvloop.run(serve(Options(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
