"""The composition root of `manage.py runappliance`: this process decides and writes; people speak to `web`, agents to `fleet/gateway`."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import uvloop
from django.conf import settings
from django.core.management import call_command

from appliance import garbage, pipe, told, web
from appliance.accounts.services import ensure_defaults, initial_password_file
from appliance.activity import tasks
from appliance.activity.services import forget_old_answers
from appliance.allocations import maintenance
from appliance.allocations import services as allocations
from appliance.allocations.tickets import signing_key
from appliance.fleet.backend import FleetBackend
from appliance.fleet.certificates import Authority, load_authority, server_certificate
from appliance.fleet.gateway_options import Options
from appliance.fleet.last_seen import flush_last_seen
from appliance.fleet.ssh_enrolment import settle_interrupted
from appliance.inventory.services import announce_reachability
from appliance.pools.services import ensure_default_pool
from appliance.telemetry import latest
from appliance.telemetry.loop_lag import watch_loop
from appliance.web_backend import WebBackend
from appliance.writer import housekeeping, off_loop, on_committed, start_writer

log = logging.getLogger("appliance")

FLUSH_SECONDS = 10.0
TICK_SECONDS = 1.0
TELL_SECONDS = 0.25
BIND_SECONDS = 5.0


def take_data_folder() -> TextIO:
    """Two appliances on one database would both grant: the second refuses."""
    lock = (settings.DATA_DIR / "appliance.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(
            f"Another appliance uses {settings.DATA_DIR}; stop it, or set BUSBAR_DATA to another folder."
        ) from None
    return lock


def prepare() -> Authority:
    """Migrations, defaults, keys. Blocks; before the loop starts."""
    for database in settings.DATABASES:
        call_command("migrate", database=database, interactive=False, verbosity=0)
    ensure_default_pool()
    ensure_defaults()
    signing_key()
    settle_interrupted()
    return load_authority(settings.DATA_DIR)


def server_names() -> list[str]:
    e = settings.ENVIRONMENT
    return [
        e.advertise,
        "127.0.0.1",
        "localhost",
        *([e.listen] if e.listen not in ("0.0.0.0", "::") else []),
    ]  # noqa: S104 - compared, not bound


async def tick() -> None:
    """Every second: what nobody holds ends, what fits starts. Nothing here is needed for correctness twice."""
    flushed = time.monotonic()
    while True:
        await asyncio.sleep(TICK_SECONDS)
        try:
            await off_loop(allocations.end_what_is_due, housekeeping)
            await off_loop(announce_reachability, housekeeping)
            await off_loop(maintenance.advance, housekeeping)
            await off_loop(allocations.queue_advance, housekeeping)
            await off_loop(allocations.check_index, housekeeping)
            await off_loop(flush_last_seen, housekeeping)
            if time.monotonic() - flushed > FLUSH_SECONDS:
                flushed = time.monotonic()
                await off_loop(allocations.count_use, housekeeping)
                await off_loop(forget_old_answers, housekeeping)
        except Exception:
            log.exception("the scheduler stumbled; it goes on in a second")


async def keep_telling(people: WebBackend) -> None:
    """What came with no commit."""
    while True:
        await asyncio.sleep(TELL_SECONDS)
        await off_loop(people.flush, housekeeping)


def gateway_options(readings: socket.socket, pem: Path, key: Path, authority: Authority) -> Options:
    e = settings.ENVIRONMENT
    return Options(
        pipe=-1, readings=readings.getsockname().hex(), address=e.listen, port=e.fleet_port, certificate=str(pem), key=str(key), authority_pem=authority.pem,
        heartbeat_seconds=e.heartbeat_seconds,
    )  # fmt: skip


def everything_heard() -> Iterator[told.Call]:
    """What a new web cannot know."""
    return (
        (latest.heard_from, (node_id,))
        for node_id in latest.all_last_seen()
        if latest.reachable(node_id)
    )


async def serve() -> None:
    e = settings.ENVIRONMENT
    authority = load_authority(settings.DATA_DIR)
    pem, key = server_certificate(authority, settings.DATA_DIR, server_names())
    bound = await listening_socket(e.listen, e.https_port)
    readings = pipe.local_socket()
    people = told.web = WebBackend(
        web.Options(-1, readings.fileno(), bound.fileno(), str(pem), str(key)), everything_heard
    )
    on_committed(people.flush)
    fleet = FleetBackend(gateway_options(readings, pem, key, authority))
    stop = asyncio.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(s, stop.set)
    people.begin()
    fleet.start()
    people.started()
    background = [
        asyncio.create_task(work)
        for work in (
            tick(),
            keep_telling(people),
            fleet.compare(),
            watch_loop(),
            garbage.keep_away(),
        )
    ]
    log.info(
        "appliance serves https://%s:%d, agents on %d, CA %s",
        e.listen,
        e.https_port,
        e.fleet_port,
        authority.fingerprint,
    )
    await stop.wait()
    tasks.abandon()
    for task in background:
        task.cancel()
    await off_loop(people.stop, housekeeping)
    await off_loop(fleet.stop, housekeeping)


async def listening_socket(address: str, port: int) -> socket.socket:
    """Waits for the web of an appliance that was killed: it ends a moment later. Raises SystemExit when the port stays taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    patience = time.monotonic() + BIND_SECONDS
    while True:
        try:
            s.bind((address, port))
            return s
        except OSError as error:
            if time.monotonic() > patience:
                raise SystemExit(
                    f"Port {port} on {address} cannot be had ({error.strerror}); set BUSBAR_HTTPS_PORT."
                ) from None
            await asyncio.sleep(0.05)


def run() -> None:
    lock = take_data_folder()
    prepare()
    writer = start_writer()
    garbage.begin()
    uvloop.run(serve())
    writer.stop()
    lock.close()
    logging.shutdown()
    os._exit(
        0
    )  # a registration may still be under way on its thread: the machine undoes its part, the next start says so


def certificate_fingerprint() -> str:
    """SHA-256 of the web server's certificate, as a browser shows it."""
    pem, _ = server_certificate(
        load_authority(settings.DATA_DIR), settings.DATA_DIR, server_names()
    )
    digest = hashlib.sha256(
        ssl.PEM_cert_to_DER_cert(
            pem.read_text().split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
        )
    ).hexdigest()
    return ":".join(digest[i : i + 2].upper() for i in range(0, len(digest), 2))


def one_time_password() -> str | None:
    path = initial_password_file()
    return path.read_text().strip() if path.exists() else None
