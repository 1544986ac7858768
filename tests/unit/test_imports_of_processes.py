"""Large packages that the controller and the HTTP server import only when they need them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import ROOT

PROGRAM = """
import sys
import django

django.setup()
import appliance.urls
import {module}

print(*sorted({names} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("appliance.controller.process", {"aiohttp", "httpx", "psycopg", "requests"}),
        ("appliance.http.server", {"httpx", "psycopg", "requests"}),
    ],
)
def test_process_starts_without_packages_that_few_installations_use(
    tmp_path: Path, module: str, names: set[str]
) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BUSBAR_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module, names=names)],
        env=environment
        | {"BUSBAR_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "appliance.settings"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == []
