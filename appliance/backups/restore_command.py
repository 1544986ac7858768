"""Command `busbar-admin restore` (`python -m appliance.backups.restore_command`)."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from appliance.backups import restoring
from appliance.backups.destination import SftpLogin
from appliance.backups.errors import BackupError
from appliance.backups.manifest import Manifest
from appliance.runtime.admin_command import CHECKOUT

PASSWORD_VARIABLE = "BUSBAR_SFTP_PASSWORD"
LOCAL = ("BUSBAR_BUNDLE", "BUSBAR_CLIENT_PACKAGES", "BUSBAR_FAILPOINT")
"""Variables that belong to a machine or a test, and not to the appliance."""
RUN_OPTIONS = {
    "BUSBAR_LISTEN": "--listen",
    "BUSBAR_ADVERTISE": "--advertise",
    "BUSBAR_HTTPS_PORT": "--port",
}
"""Variables that `./run` sets from its options."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="busbar-admin restore",
        description="Restore a backup into a new data folder, or check it.",
    )
    parser.add_argument("backup", help="file, or sftp://USER@HOST[:PORT]/FOLDER/FILE")
    parser.add_argument("--identity", type=Path, required=True, help="file with the private key")
    parser.add_argument("--check", action="store_true", help="check the backup, restore nothing")
    parser.add_argument("--ca-sha256", default="", help="refuse a backup with another CA")
    parser.add_argument("--host-key", default="", help="fingerprint of the SFTP server's key")
    parser.add_argument("--ssh-key", type=Path, help="private key for the SFTP server")
    return parser.parse_args(arguments)


def login_of(options: argparse.Namespace) -> SftpLogin:
    try:
        key = options.ssh_key.read_text() if options.ssh_key else ""
    except OSError as error:
        raise BackupError(f"{options.ssh_key} cannot be read: {error.strerror}.") from None
    return SftpLogin(options.host_key, key, os.environ.get(PASSWORD_VARIABLE, ""))


def describe(manifest: Manifest) -> str:
    rows = sum(sum(counts.values()) for counts in manifest.counts.values())
    lines = [
        f"backup     {manifest.id} of {manifest.created_at:%Y-%m-%d %H:%M:%S} UTC",
        f"release    {manifest.version}, {manifest.database}, {rows} rows",
        f"CA         SHA-256 {manifest.ca_sha256}",
    ]
    variables = variables_of(manifest)
    return "\n".join(lines + [f"variable   {n}={v}" for n, v in variables.items()])


def variables_of(manifest: Manifest) -> dict[str, str]:
    return {n: v for n, v in manifest.environment.items() if n not in LOCAL}


def how_to_start(data: Path, manifest: Manifest) -> str:
    """Return the sentence with the line that starts the restored appliance."""
    variables = variables_of(manifest)
    if data.name == "appliance":  # of ./run
        options = [(option, variables[n]) for n, option in RUN_OPTIONS.items() if n in variables]
        words = [str(CHECKOUT / "run"), "--data", str(data.parent)]
        words += [word for option in options for word in option]
    else:
        words = ["env", f"BUSBAR_DATA={data}", sys.executable, str(CHECKOUT / "manage.py")]
        words += ["runappliance"]
    needed = ["the variables above"] if variables else []
    needed += ["BUSBAR_DATABASE"] if manifest.database == "postgresql" else []
    given = f" with {' and '.join(needed)}" if needed else ""
    return f"Start the appliance{given}: {shlex.join(words)}"


def run(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    data = Path(os.environ["BUSBAR_DATA"])
    try:
        source = restoring.Source(
            options.backup, login_of(options), options.identity, options.ca_sha256
        )
        if options.check:
            manifest = restoring.check(source, Path(tempfile.gettempdir()))
        else:
            manifest = restoring.restore(source, data, os.environ.get("BUSBAR_DATABASE", ""))
    except BackupError as error:
        print(f"busbar-admin: {error}", file=sys.stderr)
        return 1
    print(describe(manifest))
    if options.check:
        print("The backup is good.")
    else:
        print(f"Restored to {data}. {how_to_start(data.resolve(), manifest)}")
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
