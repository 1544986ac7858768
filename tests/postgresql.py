"""A temporary PostgreSQL from Debian's packages, removed at the end of the process.

Use it with: BUSBAR_TEST_POSTGRESQL=1 ./test tests/appliance
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

NAME = "busbar"


def programs() -> Path:
    """Return the folder of the newest release. Raises SystemExit if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[4]))
    if not found:
        raise SystemExit("PostgreSQL is missing. As root:  apt-get install -y postgresql")
    return found[-1].parent


class Cluster:
    """A running server with an empty database, on a Unix socket in its own folder.

    PostgreSQL refuses to run as root; under root it runs as the unprivileged system user.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="busbar-postgresql-"))
        self.as_user: dict[str, object] = {}
        if os.geteuid() == 0:
            unprivileged = pwd.getpwnam("nobody")  # codespell:ignore nobody
            os.chown(self.folder, unprivileged.pw_uid, unprivileged.pw_gid)
            self.as_user = {
                "user": unprivileged.pw_uid,
                "group": unprivileged.pw_gid,
                "extra_groups": [],
            }
        data = self.folder / "data"
        self._run(
            "initdb",
            "-D",
            data,
            "-U",
            NAME,
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
        )
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        self._run("pg_ctl", "-D", data, "-w", "-l", self.folder / "log", "-o", options, "start")
        atexit.register(self._stop, data)
        self._run("createdb", "-h", self.folder, "-U", NAME, NAME)
        self.url = f"postgresql://{NAME}@/{NAME}?host={self.folder}"

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [str(programs() / program), *map(str, arguments)]
        subprocess.run(
            command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, **self.as_user
        )  # type: ignore[call-overload]

    def _stop(self, data: Path) -> None:
        self._run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
