"""The appliance that is put under load: its data, its process and what it says of itself."""

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

HTTPS_PORT, FLEET_PORT = 28843, 28844
START_SECONDS = 120.0


class Bench:
    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder, self.nodes = folder, nodes
        self.environment = os.environ | {
            "BUSBAR_DATA": str(folder / "data"), "BUSBAR_HTTPS_PORT": str(HTTPS_PORT), "BUSBAR_FLEET_PORT": str(FLEET_PORT),
            "DJANGO_SETTINGS_MODULE": "appliance.settings", "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        self.url = f"https://127.0.0.1:{HTTPS_PORT}"

    def populate(self) -> None:
        subprocess.run(
            [sys.executable, "-m", "tests.load.population", str(self.folder), str(self.nodes)],
            env=self.environment,
            cwd=ROOT,
            check=True,
        )
        self.operator = json.loads((self.folder / "people.json").read_text())["operator"]
        self.context = ssl.create_default_context(
            cadata=json.loads((self.folder / "fleet.json").read_text())[0]["ca"]
        )

    def start(
        self, program: Sequence[str] = ("manage.py", "runappliance"), **environment: str
    ) -> None:
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
                        f"the appliance does not start; see {self.folder}/appliance.log"
                    ) from None
                time.sleep(0.1)

    def get(self, path: str) -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/v1/{path}", headers={"Authorization": f"Bearer {self.operator}"}
        )
        with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:
            return json.load(answer)

    def processes(self) -> list[Path]:
        """Of the appliance and all its children, whichever of its threads started them."""
        found, wanted = [], [self.appliance.pid]
        while wanted:
            found.append(process := Path(f"/proc/{wanted.pop()}"))
            wanted += [
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
