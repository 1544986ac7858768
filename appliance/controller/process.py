"""The controller process (`manage.py runappliance`): composition root of the appliance.

It writes to the database, runs the scheduler, and starts the HTTP server and gateway processes.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import hashlib
import logging
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TextIO

import uvicorn
import uvloop
from django.conf import settings
from django.core.management import call_command

from appliance.accounts import token_uses
from appliance.accounts.services import ensure_defaults, initial_password_file
from appliance.activity import task_runner
from appliance.alarms.builtin import ensure_builtin_definitions
from appliance.allocations import eviction, lost_access, maintenance, project_usage, scheduler
from appliance.allocations.tickets import signing_key
from appliance.configuration.storage import follow_changes
from appliance.controller.alarm_job import run_alarm_actions, run_alarms
from appliance.controller.application import ControllerApplication
from appliance.controller.audit_job import run_export, run_sealer
from appliance.controller.backup_job import run_backups
from appliance.controller.disk_watch import watch_disk
from appliance.controller.http_server import HttpServerProcess
from appliance.controller.notification_job import run_notifications
from appliance.controller.retention import run_retention
from appliance.db.other_processes import publish_other_commits
from appliance.db.pending_migrations import lacks_migrations
from appliance.db.writer import (
    DatabaseThreads,
    background_pool,
    run_in_thread,
    start_writer,
)
from appliance.fleet import rotation
from appliance.fleet.authorities import authorities
from appliance.fleet.backend import FleetBackend
from appliance.fleet.certificates import Authority, server_certificate
from appliance.fleet.gateway_options import Options
from appliance.fleet.last_seen import flush_last_seen
from appliance.fleet.ssh_enrolment import fail_interrupted_enrolments
from appliance.http import server
from appliance.inventory.duplicates import release_duplicates
from appliance.inventory.reachability_events import publish_reachability_changes
from appliance.ipc import frames, unix_socket
from appliance.pools.services import ensure_default_pool
from appliance.runtime import background, descriptors, garbage_collection
from appliance.runtime.background import Work
from appliance.runtime.live_settings import current
from appliance.runtime.loop_lag import probe_loop_lag
from appliance.runtime.setting_sections import ApplianceSettings, ConnectionSettings
from appliance.signin.directory_sync import run_directory_sync
from appliance.telemetry import reachability, series

log = logging.getLogger("appliance")

TICK_SECONDS = 1.0
HOUSEKEEPING_INTERVAL_SECONDS = 10.0
STATUS_INTERVAL_SECONDS = 1.0
CERTIFICATE_CHECK_SECONDS = 5.0
BIND_TIMEOUT_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 3600
"""Of the HTTP server's connections: the client closes idle ones first."""
SOCKET_NAME = "controller.sock"


def lock_data_folder() -> TextIO:
    """Lock the data folder. Raises SystemExit if another appliance uses it: both would grant."""
    lock = (settings.DATA_DIR / "appliance.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(
            f"Another appliance uses {settings.DATA_DIR}; stop it, or set BUSBAR_DATA to another "
            "folder."
        ) from None
    return lock


def prepare() -> Authority:
    """Apply migrations and create defaults and keys. Blocks; call before the loop starts."""
    for database in settings.DATABASES:
        if lacks_migrations(database):
            call_command("migrate", database=database, interactive=False, verbosity=0)
            gc.collect()  # migrations leave 20 MB in cycles
    ensure_default_pool()
    ensure_defaults()
    ensure_builtin_definitions()
    signing_key()
    fail_interrupted_enrolments()
    rotation.update_files()
    follow_changes()
    return authorities()[0]


def server_names() -> list[str]:
    e = settings.ENVIRONMENT
    return [
        e.advertise,
        "127.0.0.1",
        "localhost",
        *([e.listen] if e.listen not in ("0.0.0.0", "::") else []),  # noqa: S104 - compared, not bound
    ]


async def run_scheduler() -> None:
    """Run a tick every second until cancelled. A step that fails does not stop the others."""
    failures: dict[str, str] = {}
    cleaned = time.monotonic()
    while True:
        await asyncio.sleep(TICK_SECONDS)
        steps: list[Callable[[], object]] = [
            publish_other_commits,
            lost_access.evict_after_changes_of_identities,
            eviction.evict_expired,
            publish_reachability_changes,
            release_duplicates,
            maintenance.complete_drained_nodes,
            scheduler.run_tick,
            scheduler.verify_index,
            flush_last_seen,
            rotation.follow_rotations,
        ]
        if time.monotonic() - cleaned > HOUSEKEEPING_INTERVAL_SECONDS:
            cleaned = time.monotonic()
            steps += [project_usage.record_project_usage, lost_access.evict_without_access]
        for step in steps:
            await run_step(step, failures)


async def run_step(step: Callable[[], object], failures: dict[str, str]) -> None:
    """Run a step of a tick. A failure is logged unless it equals the one of the tick before.

    A step that fails twice in a row is named as failed work: one failure may be a lock.
    """
    failure, before = "", failures.get(step.__name__)
    try:
        await run_in_thread(step, background_pool)
    except Exception as error:
        failure = repr(error)
        if failure != before:
            log.exception("scheduler: %s failed, will retry", step.__name__)
        if before:
            background.remember_failure(background.name_of(step))
    failures[step.__name__] = failure


async def renew_server_certificate() -> None:
    """Renew the certificate of the HTTPS and agent ports in time, until cancelled.

    The HTTP server and the gateway notice the new files. Open connections continue.
    """
    while True:
        lifetime = current(ApplianceSettings).server_certificate_seconds
        await asyncio.sleep(min(CERTIFICATE_CHECK_SECONDS, lifetime / 12))
        try:
            await run_in_thread(issue_server_certificate, background_pool)
        except Exception:
            log.exception("appliance: the server's certificate was not renewed, trying again")
            background.remember_failure(background.name_of(renew_server_certificate))


def issue_server_certificate() -> tuple[Path, Path]:
    """Return the files of the server's certificate and key; issue them if it is necessary."""
    return server_certificate(
        authorities()[0],
        settings.DATA_DIR,
        server_names(),
        timedelta(seconds=current(ApplianceSettings).server_certificate_seconds),
    )


async def send_status(http_server: HttpServerProcess) -> None:
    """Send the controller's figures to the HTTP server every second until cancelled."""
    while True:
        http_server.send_status()
        await asyncio.sleep(STATUS_INTERVAL_SECONDS)


def gateway_options(samples: socket.socket, pem: Path, key: Path) -> Options:
    e, limits = settings.ENVIRONMENT, current(ConnectionSettings)
    return Options(
        pipe=-1,
        samples_socket=samples.getsockname().hex(),
        address=e.listen,
        port=e.fleet_port,
        certificate=str(pem),
        key=str(key),
        authority=str(settings.DATA_DIR / "ca.pem"),
        socket=str((settings.DATA_DIR / "gateway.sock").resolve()),
        max_connections=limits.max_connections,
        max_anonymous_connections=limits.max_anonymous_connections,
        max_anonymous_connections_per_address=limits.max_anonymous_connections_per_address,
        heartbeat_seconds=limits.heartbeat_seconds,
    )


def http_options(
    listening: socket.socket, samples: socket.socket, controller: Path, pem: Path, key: Path
) -> server.Options:
    return server.Options(
        stream=-1,
        samples=samples.fileno(),
        listening=listening.fileno(),
        controller=str(controller),
        certificate=str(pem),
        key=str(key),
    )


class ApiThread:
    """Serves the controller's ASGI application on a Unix socket.

    uvicorn runs on a thread of its own, so that it leaves the signals of the process alone.
    """

    def __init__(self, path: Path) -> None:
        self._listening = unix_socket.listen(path)
        config = uvicorn.Config(
            ControllerApplication(),
            interface="asgi3",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            forwarded_allow_ips="*",  # only our own user can connect
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = background.thread_of("api", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        self._server.run(sockets=[self._listening])


def background_work(http_server: HttpServerProcess, fleet: FleetBackend) -> Sequence[Work]:
    """Return what runs on the event loop until the appliance stops."""
    return (
        run_scheduler,
        run_retention,
        run_directory_sync,
        run_sealer,
        run_export,
        run_notifications,
        run_alarms,
        run_alarm_actions,
        run_backups,
        watch_disk,
        token_uses.store_every_minute,
        partial(send_status, http_server),
        renew_server_certificate,
        fleet.watch_generations,
        probe_loop_lag,
        garbage_collection.run_collection_policy,
        descriptors.watch,
    )


async def serve() -> None:
    e = settings.ENVIRONMENT
    asyncio.get_running_loop().set_default_executor(DatabaseThreads())  # of asyncio.to_thread
    authority, *_ = await run_in_thread(authorities, background_pool)
    pem, key = await run_in_thread(issue_server_certificate, background_pool)
    listening = await listening_socket(e.listen, e.https_port)
    samples = frames.listen_on_random_name()
    socket_path = (settings.DATA_DIR / SOCKET_NAME).resolve()
    api = ApiThread(socket_path)
    http_server = HttpServerProcess(http_options(listening, samples, socket_path, pem, key))
    series.use_remote(http_server)
    reachability.add_sink(http_server.send_heartbeat)
    fleet = FleetBackend(gateway_options(samples, pem, key))
    stop = asyncio.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(s, stop.set)
    api.start()
    http_server.start()
    fleet.start()
    http_server.wait_until_ready()
    tasks = [
        asyncio.create_task(background.keep_running(work))
        for work in background_work(http_server, fleet)
    ]
    log.info(
        "appliance: serving https://%s:%d, agents on port %d, CA fingerprint %s",
        e.listen,
        e.https_port,
        e.fleet_port,
        authority.fingerprint,
    )
    await stop.wait()
    task_runner.shut_down()
    for task in tasks:
        task.cancel()
    await run_in_thread(http_server.stop, background_pool)
    await run_in_thread(api.stop, background_pool)
    await run_in_thread(fleet.stop, background_pool)
    await run_in_thread(token_uses.flush, background_pool)


async def listening_socket(address: str, port: int) -> socket.socket:
    """Bind the port for the HTTP server.

    Retries while the HTTP server of a killed appliance ends. Raises SystemExit if the port stays
    in use.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    deadline = time.monotonic() + BIND_TIMEOUT_SECONDS
    while True:
        try:
            s.bind((address, port))
            return s
        except OSError as error:
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"Cannot bind port {port} on {address} ({error.strerror}); "
                    "set BUSBAR_HTTPS_PORT."
                ) from None
            await asyncio.sleep(0.05)


def run() -> None:
    lock = lock_data_folder()
    descriptors.raise_limit()
    prepare()
    writer = start_writer()
    garbage_collection.start_collection_policy()
    uvloop.run(serve())
    writer.stop()
    lock.close()
    logging.shutdown()
    # An SSH enrolment may still run on its thread. Its node rolls back its part, and the next
    # start reports it as interrupted.
    os._exit(0)


def certificate_fingerprint() -> str:
    """Return the SHA-256 fingerprint of the HTTP server's certificate, as browsers show it."""
    pem, _ = issue_server_certificate()
    certificate, _, _ = pem.read_text().partition("-----END CERTIFICATE-----\n")
    digest = hashlib.sha256(
        ssl.PEM_cert_to_DER_cert(certificate + "-----END CERTIFICATE-----\n")
    ).hexdigest()
    return ":".join(digest[i : i + 2].upper() for i in range(0, len(digest), 2))


def one_time_password() -> str | None:
    path = initial_password_file()
    return path.read_text().strip() if path.exists() else None
