"""Backup of a running appliance by `busbar-admin backup`, and its restore by `restore`."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import load_pem_x509_certificate

from appliance.backups.manifest import FILE_PATTERN
from deploy.supervisor import ROOT
from tests.appliance.appliance_process import ApplianceProcess, started

NOT_IN_BACKUPS = re.compile(
    r"appliance\.lock|backup\.lock|.*\.sock|(control|metrics)\.db-(wal|shm)|"
)


class World(NamedTuple):
    appliance: ApplianceProcess
    key: Path
    folder: Path
    backup: Path
    output: str

    def admin(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return admin(self.appliance.environment | environment, *arguments)

    def restore(self, backup: Path, data: Path, *more: str) -> subprocess.CompletedProcess[str]:
        arguments = ("restore", str(backup), "--identity", str(self.key), *more)
        return self.admin(*arguments, BUSBAR_DATA=str(data))


def admin(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "busbar-admin"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("backup")
    with started(folder) as appliance:
        key, stored = folder / "backup.key", folder / "stored"
        stored.mkdir()
        made = admin(appliance.environment, "backup-key", str(key))
        assert made.returncode == 0, made.stderr
        done = admin(appliance.environment, "backup", "--to", str(stored))
        assert done.returncode == 0, done.stderr
        (backup,) = stored.iterdir()
        yield World(appliance, key, stored, backup, done.stdout)


def rows(data: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(data / "control.db")) as database:
        return database.execute(query).fetchall()


def test_backup_contains_every_file_of_the_data_folder(world: World) -> None:
    present = {p.name for p in world.appliance.data.iterdir() if not p.is_dir()}
    forgotten = {n for n in present if not NOT_IN_BACKUPS.fullmatch(n)} - {
        n for n in present if re.fullmatch(FILE_PATTERN, n)
    }
    assert not forgotten and "ticket_key" in present


def test_backup_is_private_and_shows_nothing_of_its_content(world: World) -> None:
    content = world.backup.read_bytes()
    assert world.backup.stat().st_mode & 0o777 == 0o600
    assert world.key.stat().st_mode & 0o777 == 0o600
    assert content.startswith(b"age-encryption.org/v1\n")
    assert (world.appliance.data / "secret_key").read_bytes() not in content
    assert re.search(r"checked: \d+ rows, \d+ bytes, [0-9.]+ s, sha256 [0-9a-f]{64}", world.output)
    assert b"AGE-SECRET-KEY" not in (world.appliance.data / "backup-recipients").read_bytes()
    assert not list(world.appliance.data.glob("backup-work-*")), "copies of the keys are left"


def test_backup_is_recorded_with_event_and_audit(world: World) -> None:
    (row,) = rows(world.appliance.data, "SELECT name, size_bytes FROM backups_backup")
    assert row == (world.backup.name, world.backup.stat().st_size)
    kinds = {k for (k,) in rows(world.appliance.data, "SELECT kind FROM activity_event")}
    assert {"backup.created", "backup.key_created"} <= kinds
    assert rows(
        world.appliance.data, "SELECT 1 FROM audit_auditrecord WHERE action = 'backup.created'"
    )


def test_restore_yields_an_appliance_with_the_same_keys_and_rows(
    world: World, tmp_path: Path
) -> None:
    old, new = world.appliance.data, tmp_path / "data"
    done = world.restore(world.backup, new)
    assert done.returncode == 0, done.stderr
    for name in ("secret_key", "ticket_key", "ca.key", "ca.pem", "server.key"):
        assert (new / name).read_bytes() == (old / name).read_bytes()
        assert (new / name).stat().st_mode & 0o777 == 0o600
    assert new.stat().st_mode & 0o777 == 0o700
    users = "SELECT username, password FROM accounts_user ORDER BY id"
    assert rows(new, users) == rows(old, users)
    assert rows(new, "SELECT kind FROM activity_event ORDER BY id")[-1] == ("appliance.restored",)
    assert f"BUSBAR_HTTPS_PORT={world.appliance.https_port}" in done.stdout
    assert not list(new.parent.glob(".data.restore-*"))

    again = world.restore(world.backup, new)
    assert again.returncode == 1 and "was already restored from the backup" in again.stderr
    with started(tmp_path) as appliance:
        assert appliance.data == new


def test_restore_prints_the_line_that_starts_the_appliance(world: World, tmp_path: Path) -> None:
    (stored := tmp_path / "stored").mkdir()
    plain = {n: v for n, v in world.appliance.environment.items() if not n.startswith("BUSBAR_")}
    plain["BUSBAR_DATA"] = str(world.appliance.data)
    assert admin(plain, "backup", "--to", str(stored)).returncode == 0
    (without_variables,) = stored.iterdir()
    done = world.restore(without_variables, tmp_path / "first" / "appliance")
    line = f"Start the appliance: {ROOT / 'run'} --data {tmp_path / 'first'}\n"
    assert done.stdout.endswith(line) and "variable" not in done.stdout, done

    done = world.restore(world.backup, tmp_path / "second" / "appliance")
    line = f" {ROOT / 'run'} --data {tmp_path / 'second'} --port {world.appliance.https_port}\n"
    assert done.stdout.endswith(line) and "with the variables above:" in done.stdout, done


def test_check_restores_nothing(world: World, tmp_path: Path) -> None:
    ca = load_pem_x509_certificate((world.appliance.data / "ca.pem").read_bytes())
    fingerprint = ca.fingerprint(SHA256()).hex().upper()
    done = world.restore(world.backup, tmp_path / "data", "--check", "--ca-sha256", fingerprint)
    assert done.returncode == 0 and "The backup is good." in done.stdout, done.stderr
    assert not (tmp_path / "data").exists()


def test_backup_without_key_or_destination_says_what_to_do(world: World, tmp_path: Path) -> None:
    done = world.admin("backup")
    assert done.returncode == 1 and "busbar settings set backup.destination" in done.stderr
    done = world.admin("backup", "--to", str(tmp_path / "missing"))
    assert done.returncode == 1 and "There is no folder" in done.stderr
    done = world.admin("backup", "--to", str(world.appliance.data))
    assert done.returncode == 1 and "in the data folder" in done.stderr
    again = world.admin("backup-key", str(world.key))
    assert again.returncode == 1 and "File exists" in again.stderr
    events = rows(world.appliance.data, "SELECT message FROM activity_event")
    assert sum("No backup was made: " in message for (message,) in events) == 3


def test_killed_backup_leaves_no_file_with_a_final_name(world: World, tmp_path: Path) -> None:
    (tmp_path / "stored").mkdir()
    command = [sys.executable, "manage.py", "create_backup", "--to", str(tmp_path / "stored")]
    process = subprocess.Popen(
        command, cwd=ROOT, env=world.appliance.environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "Checking" in line:
            process.kill()
            break
    process.wait()
    names = [p.name for p in (tmp_path / "stored").iterdir()]
    assert len(names) == 1 and names[0].endswith(".age.part")
    done = world.admin("backup", "--to", str(tmp_path / "stored"))
    assert done.returncode == 0, done.stderr
    assert not list(world.appliance.data.glob("backup-work-*"))
