"""A running appliance with its own data folder and ports, for tests of its processes."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.ports import free_port
from deploy.supervisor import ROOT, wait_for
from tests.load.http import Client
from tests.migrated import place_migrated_databases
from tests.ports import port

PASSWORD = "fjord-lamp-9031-quilt"
STRANGER = "127.0.0.2"
"""An address of this machine that no test uses for its own requests."""
WITH_USUAL_LIMIT = ("/bin/sh", "-c", 'ulimit -Sn 1024; exec "$@"', "sh")
"""Prefix of a command that starts with the usual soft limit of descriptors."""


class ApplianceProcess:
    def __init__(self, folder: Path, **environment: str) -> None:
        self.data, self.log = folder / "data", folder / "log"
        self.https_port = free_port(port(800), "127.0.0.1")
        self.fleet_port = free_port(self.https_port + 1, "127.0.0.1")
        self.environment = os.environ | {
            "BUSBAR_DATABASE": "",
            "BUSBAR_DATA": str(self.data),
            "BUSBAR_HTTPS_PORT": str(self.https_port),
            "BUSBAR_FLEET_PORT": str(self.fleet_port),
            **environment,
        }
        self.url = f"https://127.0.0.1:{self.https_port}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*WITH_USUAL_LIMIT, sys.executable, "manage.py", "runappliance"],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.data / "ca.pem"))

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.url + path, timeout=60, context=self.context) as response:
            content: bytes = response.read()
            return content

    def is_ready(self) -> bool:
        try:
            return bool(json.loads(self.get("/readyz"))["ready"])
        except OSError:
            return False

    def manage(self, *arguments: str) -> str:
        """Run a command of manage.py and return the last line of its output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()[-1]

    def client(self, source: str = "127.0.0.1", timeout_seconds: float = 60.0) -> Client:
        """Return a client whose connections come from an address of this machine."""
        return Client(self.url, self.context, timeout_seconds, source)


@contextmanager
def started(folder: Path, **environment: str) -> Iterator[ApplianceProcess]:
    """Run an appliance that is ready; the variables of `environment` are its settings."""
    place_migrated_databases(folder / "data")
    with started_as_it_is(folder, **environment) as appliance:
        yield appliance


@contextmanager
def started_as_it_is(folder: Path, **environment: str) -> Iterator[ApplianceProcess]:
    """Like `started`, but the appliance migrates a new database itself, which takes a second."""
    appliance = ApplianceProcess(folder, **environment)
    try:
        wait_for("the appliance", appliance.is_ready, appliance.log)
        yield appliance
    finally:
        appliance.process.kill()
        appliance.process.wait()
