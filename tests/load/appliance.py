"""The appliance under load: its data folder, its processes and their resource usage."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.supervisor import ROOT
from tests.ports import port

HTTPS_PORT, FLEET_PORT = port(900), port(901)
START_SECONDS = 120.0


class Bench:
    """An appliance with its own data folder, populated with nodes, users and tokens."""

    def __init__(self, folder: Path, nodes: int, *, with_people: bool = False) -> None:
        self.folder, self.nodes = folder, nodes
        self.options = ["--people"] if with_people else []
        self.environment = os.environ | {
            "BUSBAR_DATA": str(folder / "data"),
            "BUSBAR_HTTPS_PORT": str(HTTPS_PORT),
            "BUSBAR_FLEET_PORT": str(FLEET_PORT),
            "DJANGO_SETTINGS_MODULE": "appliance.settings",
            "PYTHONPATH": str(ROOT),
        }
        self.url = f"https://127.0.0.1:{HTTPS_PORT}"

    def populate(self) -> None:
        subprocess.run(
            [
                *(sys.executable, "-m", "tests.load.population"),
                *(str(self.folder), str(self.nodes), *self.options),
            ],
            env=self.environment,
            cwd=ROOT,
            check=True,
        )
        self.operator = json.loads((self.folder / "users.json").read_text())["operator"]
        self.context = ssl.create_default_context(
            cadata=json.loads((self.folder / "fleet.json").read_text())[0]["ca"]
        )

    def start(
        self, program: Sequence[str] = ("manage.py", "runappliance"), **environment: str
    ) -> None:
        """Start the appliance and block until it serves requests. Raises SystemExit if it fails."""
        log = (self.folder / "appliance.log").open("ab")
        self.appliance = subprocess.Popen(
            [sys.executable, *program],
            env=self.environment | environment,
            cwd=ROOT,
            stderr=log,
            stdout=log,
        )
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.get("appliance")
                return
            except OSError:
                if time.monotonic() > end or self.appliance.poll() is not None:
                    raise SystemExit(
                        f"The appliance did not start. See {self.folder}/appliance.log"
                    ) from None
                time.sleep(0.1)

    def get(self, path: str) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}", headers={"Authorization": f"Bearer {self.operator}"}
        )
        with urllib.request.urlopen(request, context=self.context, timeout=30) as response:
            return json.load(response)

    def processes(self) -> list[Path]:
        """Return the /proc folders of the controller and all its descendants."""
        found, pending = [], [self.appliance.pid]
        while pending:
            found.append(process := Path(f"/proc/{pending.pop()}"))
            pending += [
                int(child)
                for task in (process / "task").iterdir()
                for child in (task / "children").read_text().split()
            ]
        return found

    def rss_bytes(self) -> int:
        return sum(
            int((p / "statm").read_text().split()[1]) for p in self.processes()
        ) * os.sysconf("SC_PAGESIZE")

    def processor_seconds(self) -> float:
        stats = [(p / "stat").read_text().rpartition(")")[2].split() for p in self.processes()]
        return sum(int(s[11]) + int(s[12]) for s in stats) / os.sysconf("SC_CLK_TCK")
