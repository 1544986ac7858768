"""Files and folders of an installed node."""

from __future__ import annotations

from pathlib import Path

HOME = Path("/opt/busbar")
STATE = Path("/var/lib/busbar")
RUNTIME = Path("/run/busbar")
SYSTEMD_UNITS = Path("/etc/systemd/system")

JOURNAL = HOME / "journal.json"
SETTINGS = HOME / "service.json"
COMMAND = HOME / "busbar-node"
LIBRARY = HOME / "lib"
PROGRAMS = HOME / "bin"
PID_FILE = HOME / "service.pid"
LOG_FILE = HOME / "service.log"
