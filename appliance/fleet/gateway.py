"""The gateway process: gRPC streams of the agents.

TLS, HTTP/2 and protobuf of a thousand nodes must not contend for the GIL of other processes. The
gateway has no database and no key except the server's. It ends with the controller.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from pathlib import Path

import grpc
import uvloop

from appliance.fleet.agent_stream import Stream
from appliance.fleet.controller_connection import Controller, SampleClient
from appliance.fleet.gateway_options import PORT_TAKEN, Options
from appliance.fleet.servicer import FleetServicer
from appliance.ipc.frames import Frame, Kind
from nodes.protocol import fleet_pb2_grpc, limits

HANDSHAKE_MILLISECONDS, MAX_STREAMS = 10_000, 4
SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", limits.MAX_MESSAGE_BYTES),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MILLISECONDS),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
)


async def serve(options: Options) -> None:
    """Serve agents until the controller closes the connection."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=options.pipe))
    streams: dict[bytes, Stream] = {}
    samples = SampleClient(bytes.fromhex(options.samples_socket))
    controller = Controller(reader, writer, streams, samples)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    fleet_pb2_grpc.add_FleetServicer_to_server(
        FleetServicer(controller, streams, options.heartbeat_seconds), server
    )
    pair = (Path(options.key).read_bytes(), Path(options.certificate).read_bytes())
    credentials = grpc.ssl_server_credentials(
        [pair], options.authority_pem.encode(), require_client_auth=True
    )
    try:
        server.add_secure_port(f"{options.address}:{options.port}", credentials)
    except RuntimeError as error:
        raise SystemExit(PORT_TAKEN) from error
    await server.start()
    controller.send(Frame(Kind.READY))
    tasks = [
        asyncio.create_task(work)
        for work in (controller.send_samples(), controller.send_heartbeats(), controller.read())
    ]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def main() -> None:
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO
    )
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, signal.SIG_IGN)  # the controller decides when this process ends
    uvloop.run(serve(Options(**json.loads(sys.argv[1]))))
    os._exit(0)


if __name__ == "__main__":
    main()
