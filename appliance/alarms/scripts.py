"""Scripts that root has placed in a folder of the appliance, run by name as a user of their own.

Definitions name a script; they cannot give it arguments. It reads JSON from its standard input.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from appliance.alarms.action_errors import ActionError, ActionRefusedError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MAX_ERROR = 300
POLL_SECONDS = 0.02
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def folder() -> Path:
    return Path(settings.ENVIRONMENT.alarm_scripts)


def run(name: str, content: Mapping[str, Any], user: str, seconds: float) -> None:
    """Run a script to its end, or kill it after `seconds`. Blocks.

    Raises ActionRefusedError if the script or the user does not meet the rules, and ActionError
    if the script fails.
    """
    path, account = find(name), account_of(user)
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as data:
        data.write(json.dumps(content).encode())
        data.seek(0)
        process = subprocess.Popen(
            [path],
            stdin=data,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd="/",
            env=ENVIRONMENT,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            start_new_session=True,
        )
        status = wait(process, seconds)
        errors.seek(0)
        text = errors.read(MAX_ERROR).decode(errors="replace").strip()
    if status is None:
        raise ActionError(f"script {name} was killed after {seconds:g} s")
    if status:
        raise ActionError(f"script {name} ended with status {status}: {' '.join(text.split())}")


def wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return the status of the process; None if it was killed because of its time.

    Kills what it has left behind in its group, too, before its id can become another's.
    """
    end = time.monotonic() + seconds
    while not has_ended(process.pid) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    in_time = has_ended(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    status = process.wait()
    return status if in_time else None


def has_ended(pid: int) -> bool:
    """Return whether a child has ended, and leave it as a zombie that keeps its id."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def find(name: str) -> Path:
    """Return the path of a script that only root can have placed. Raises ActionRefusedError."""
    if not NAME.fullmatch(name):
        raise ActionRefusedError(f"{name!r} is not the name of a script")
    place = folder()
    for path, is_kind in ((place, stat.S_ISDIR), (place / name, stat.S_ISREG)):
        try:
            found = path.lstat()
        except OSError as error:
            raise ActionRefusedError(f"script {name}: {path}: {error.strerror}") from error
        if not is_kind(found.st_mode) or found.st_uid or found.st_mode & 0o022:
            raise ActionRefusedError(
                f"script {name}: {path} must belong to root, and only root may write to it"
            )
    return place / name


def account_of(user: str) -> pwd.struct_passwd:
    """Return the account of the scripts: neither root nor that of the appliance."""
    if not user:
        raise ActionRefusedError("scripts are off; set alarms.script_user in the settings")
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise ActionRefusedError(f"there is no user {user} on the appliance") from None
    if account.pw_uid in (0, os.getuid()):
        raise ActionRefusedError("scripts need a user other than root and that of the appliance")
    if os.getuid():
        raise ActionRefusedError("only an appliance that runs as root can change to another user")
    return account
