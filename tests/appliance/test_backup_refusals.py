"""What is refused when a backup is made or restored, with a small data folder of its own."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyrage
import pytest
from django.conf import settings
from django.db import connection

from appliance.backups import creation, restoring
from appliance.backups.age_keys import RECIPIENTS, read_identities, read_recipients
from appliance.backups.creation import Made
from appliance.backups.destination import Folder, SftpLogin
from appliance.backups.errors import BackupError
from appliance.backups.manifest import FORMAT
from appliance.backups.restoring import Source
from appliance.backups.working_folder import working_folder
from appliance.fleet.certificates import load_authority

pytestmark = pytest.mark.skipif(
    connection.vendor == "postgresql", reason="the data folder of these tests has SQLite databases"
)
TABLES = """
CREATE TABLE django_migrations (app text, name text);
CREATE TABLE keys_keyset (kind text, "current" text, "next" text, phase text);
CREATE TABLE filler (content blob);
"""


class Kept(NamedTuple):
    data: Path
    key: Path
    backup: Path

    def refusal(self, backup: Path, data: Path, key: Path | None = None, ca: str = "") -> str:
        """Return why a restore is refused. It leaves nothing beside the data folder."""
        source = Source(str(backup), SftpLogin(""), key or self.key, ca)
        with pytest.raises(BackupError) as refused:
            restoring.restore(source, data, "")
        assert not list(data.parent.glob(f".{data.name}.restore-*"))
        return str(refused.value)


@contextmanager
def data_folder(data: Path) -> Iterator[None]:
    """Make a folder the data folder of this process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(settings, "DATA_DIR", data)
        yield


def make(data: Path, stored: Path) -> Made:
    with data_folder(data):
        return creation.make_backup(Folder(stored), lambda *_: None)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("kept")
    (data := folder / "data").mkdir()
    (stored := folder / "stored").mkdir()
    for name in ("control.db", "metrics.db"):
        with closing(sqlite3.connect(data / name)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.executescript(TABLES)
            database.execute("INSERT INTO filler VALUES (randomblob(300000))")
            database.commit()
    load_authority(data)
    for name in ("secret_key", "ticket_key"):
        (data / name).write_text("secret of the " + name)
    key = pyrage.x25519.Identity.generate()
    (folder / "key").write_text(f"# key\n{key}\n")
    (data / RECIPIENTS).write_text(f"{key.to_public()}\n")
    return Kept(data, folder / "key", stored / make(data, stored).name)


def repacked(kept: Kept, folder: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Return a backup with changed members, as a stranger with the public key can make it."""
    plain = io.BytesIO()
    with kept.backup.open("rb") as source:
        pyrage.decrypt_io(source, plain, read_identities(kept.key))
    plain.seek(0)
    with tarfile.open(fileobj=plain, mode="r:gz") as old:
        members = {m.name: (old.extractfile(m) or io.BytesIO()).read() for m in old}
    change(members)
    new = io.BytesIO()
    with tarfile.open(fileobj=new, mode="w:gz", compresslevel=1) as changed:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            changed.addfile(info, io.BytesIO(content))
    target = folder / "changed.age"
    new.seek(0)
    with target.open("wb") as file:
        pyrage.encrypt_io(new, file, read_recipients(kept.data))
    return target


def in_manifest(**changes: Any) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        manifest = json.loads(members["manifest.json"])
        members["manifest.json"] = json.dumps(manifest | changes).encode()

    return change


def test_backup_contains_keys_and_committed_rows_only_encrypted(kept: Kept) -> None:
    content = kept.backup.read_bytes()
    assert content.startswith(b"age-encryption.org/v1\n") and b"secret of the" not in content
    assert kept.backup.stat().st_mode & 0o777 == 0o600
    plain = io.BytesIO()
    pyrage.decrypt_io(io.BytesIO(content), plain, read_identities(kept.key))
    plain.seek(0)
    with tarfile.open(fileobj=plain, mode="r:gz") as archive:
        names = archive.getnames()
        secret = archive.extractfile("secret_key")
        assert secret is not None and secret.read() == b"secret of the secret_key"
    assert names[0] == "manifest.json"
    assert set(names[1:]) == {
        "backup-recipients",
        "ca.key",
        "ca.pem",
        "control.db",
        "metrics.db",
        "secret_key",
        "ticket_key",
    }


def test_second_backup_waits_for_no_other_one(kept: Kept) -> None:
    with (
        working_folder(kept.data),
        pytest.raises(BackupError, match="Another backup is being made"),
    ):
        make(kept.data, kept.backup.parent)


def test_destination_that_returns_another_content_gets_no_backup(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(folder: Folder, name: str, target: Path, most: int) -> None:
        assert most >= (folder.path / name).stat().st_size
        target.write_bytes((folder.path / name).read_bytes()[:-1])

    monkeypatch.setattr(Folder, "download", download)
    with pytest.raises(BackupError, match="returned another content"):
        make(kept.data, tmp_path)
    assert not list(tmp_path.iterdir()) and not list(kept.data.glob("backup-work-*"))


def test_damaged_database_and_lost_key_give_no_backup(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "stored").mkdir()
    shutil.copytree(kept.data, tmp_path / "data")
    (tmp_path / "data" / "ticket_key").unlink()
    with pytest.raises(BackupError, match="Keys of the appliance are missing"):
        make(tmp_path / "data", tmp_path / "stored")
    (tmp_path / "data" / "ticket_key").touch()
    with (tmp_path / "data" / "control.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    with pytest.raises(BackupError, match=r"control\.db is damaged"):
        make(tmp_path / "data", tmp_path / "stored")
    assert not list((tmp_path / "stored").iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts a small file system")
@pytest.mark.parametrize(
    ("options", "message"),
    [("size=64k", "no space is left"), ("size=64m,ro", "Read-only file system")],
    ids=["full", "read-only"],
)
def test_full_or_read_only_destination_is_left_empty(
    kept: Kept, tmp_path: Path, options: str, message: str
) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(tmp_path)]
    subprocess.run(mount, check=True)
    try:
        with pytest.raises(BackupError, match=message):
            make(kept.data, tmp_path)
        assert not list(tmp_path.iterdir()) and not list(kept.data.glob("backup-work-*"))
        assert message in kept.refusal(kept.backup, tmp_path / "data")
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("cut", [1, 16, 65_552, 100_000])
def test_cut_backup_is_refused(kept: Kept, tmp_path: Path, cut: int) -> None:
    content = kept.backup.read_bytes()
    assert len(content) > cut
    (tmp_path / "cut.age").write_bytes(content[:-cut])
    assert "cut or altered" in kept.refusal(tmp_path / "cut.age", tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("place", [0.3, 0.9, 0.9999])
def test_altered_backup_is_refused(kept: Kept, tmp_path: Path, place: float) -> None:
    content = bytearray(kept.backup.read_bytes())
    content[int(len(content) * place)] ^= 1
    (tmp_path / "altered.age").write_bytes(content)
    assert "cut or altered" in kept.refusal(tmp_path / "altered.age", tmp_path / "data")


def test_other_or_missing_file_is_refused(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"hello")
    assert "is no file of age" in kept.refusal(tmp_path / "other", tmp_path / "data")
    assert "There is no file" in kept.refusal(tmp_path / "missing", tmp_path / "data")


def test_wrong_key_is_refused(kept: Kept, tmp_path: Path) -> None:
    wrong = tmp_path / "other.key"
    wrong.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    reason = kept.refusal(kept.backup, tmp_path / "data", wrong)
    assert "None of the keys opens the backup" in reason
    wrong.write_text("age1\n")
    assert "is no key file" in kept.refusal(kept.backup, tmp_path / "data", wrong)


def test_restore_does_not_overwrite_an_appliance(kept: Kept) -> None:
    before = (kept.data / "secret_key").read_bytes()
    reason = kept.refusal(kept.backup, kept.data)
    assert "never overwrites an appliance" in reason
    assert (kept.data / "secret_key").read_bytes() == before


def lose_key(members: dict[str, bytes]) -> None:
    members["ca.key"] = members["secret_key"]


def add_member(members: dict[str, bytes]) -> None:
    members["../outside"] = b"x"


def lose_rows(members: dict[str, bytes]) -> None:
    manifest = json.loads(members["manifest.json"])
    manifest["counts"]["control.db"]["keys_keyset"] += 1
    members["manifest.json"] = json.dumps(manifest).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (in_manifest(format=FORMAT + 1), "made by a newer release"),
        (lose_key, "cut or altered"),
        (add_member, "unexpected member '../outside'"),
        (lose_rows, "table keys_keyset of control.db has"),
        (in_manifest(ca_sha256="0" * 64), "lacks the key of its CA"),
        (in_manifest(database="postgresql"), "lacks control.pgdump"),
    ],
    ids=["format", "key", "member", "rows", "ca", "database"],
)
def test_backup_of_a_newer_release_or_stranger_is_refused(
    kept: Kept, tmp_path: Path, change: Callable[[dict[str, bytes]], None], message: str
) -> None:
    reason = kept.refusal(repacked(kept, tmp_path, change), tmp_path / "data")
    assert message in reason
    assert not (tmp_path / "data").exists()


def test_backup_with_another_ca_is_refused_when_the_fingerprint_is_given(
    kept: Kept, tmp_path: Path
) -> None:
    reason = kept.refusal(kept.backup, tmp_path / "data", ca="AB:" * 31 + "AB")
    assert "is of another appliance" in reason
