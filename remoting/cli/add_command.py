"""`busbar node add`: confirm the machine's key, hand the credentials over once, follow the task."""

from __future__ import annotations

import getpass
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from remoting.cli.api import EXIT_CONFLICT, EXIT_USAGE, Api, ApiError

POLL_SECONDS = 0.3
MARKS = {"pass": "ok  ", "warn": "warn", "fail": "FAIL"}


def add(
    api: Api,
    destination: str,
    *,
    key: Path | None,
    agent: bool,
    software_gpus: int,
    addresses: list[str],
    host_key_sha256: str,
) -> None:
    """Blocks until the task ends. Raises ApiError when it failed."""
    parts = urlsplit(destination if "//" in destination else f"ssh://{destination}")
    if parts.scheme != "ssh" or not parts.hostname:
        raise ApiError("Say which machine: busbar node add ssh://USER@HOST", EXIT_USAGE)
    body: dict[str, Any] = {
        "address": parts.hostname, "port": parts.port or 22, "username": parts.username or getpass.getuser(), "software_gpus": software_gpus,
        "addresses": addresses,
    }  # fmt: skip
    body |= credentials(body["username"], parts.hostname, key, agent)
    task = confirmed(api, body, host_key_sha256)
    follow(api, task)


def credentials(username: str, host: str, key: Path | None, agent: bool) -> dict[str, Any]:
    if agent:
        return {"use_agent": True}
    if key is not None:
        found: dict[str, Any] = {"private_key": key.read_text()}
        if "ENCRYPTED" in found["private_key"]:
            found["passphrase"] = getpass.getpass(f"Passphrase of {key}: ")
        if username != "root":
            found["sudo_password"] = getpass.getpass(
                f"Password of {username} for sudo (empty if none is asked): "
            )
        return found
    return {"password": getpass.getpass(f"Password of {username}@{host}: ")}


def confirmed(api: Api, body: dict[str, Any], host_key_sha256: str) -> dict[str, Any]:
    try:
        return api.request("POST", "nodes/enrol-ssh", body | {"host_key_sha256": host_key_sha256})
    except ApiError as error:
        if error.code != "host_key_unconfirmed":
            raise
        shown, key_type = error.fields["host_key_sha256"], error.fields["host_key_type"]
    typer.confirm(
        f"{body['address']} shows the {key_type} key\n  SHA256:{shown}\nIs that right?", abort=True
    )
    return api.request("POST", "nodes/enrol-ssh", body | {"host_key_sha256": shown})


def follow(api: Api, task: dict[str, Any]) -> None:
    said, table_shown = "", False
    while True:
        if task["message"] != said:
            said = task["message"]
            print(f"{task['progress_percent']:3d} %  {said}", file=sys.stderr)
        if not table_shown and (task["result"] or {}).get("preflight"):
            table_shown = True
            for row in task["result"]["preflight"]:
                print(
                    f"       {MARKS[row['state']]}  {row['check']}: {row['found']}{'  -> ' + row['fix'] if row['fix'] else ''}",
                    file=sys.stderr,
                )
        if task["state"] == "succeeded":
            return
        if task["state"] not in ("queued", "running"):
            raise ApiError((task["error"] or {}).get("detail", task["state"]), EXIT_CONFLICT)
        time.sleep(POLL_SECONDS)
        task = api.request("GET", f"tasks/{task['id']}")
