"""Make a backup by the settings, and record its outcome."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from django.conf import settings
from pydantic import BaseModel, ConfigDict

from appliance.activity.events import emit
from appliance.audit.records import record_created, record_deleted
from appliance.backups.creation import Report, make_backup
from appliance.backups.destination import Destination, SftpLogin, opened
from appliance.backups.errors import BackupError
from appliance.backups.models import Backup
from appliance.db.writer import write_transaction
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import BackupSettings

NO_DESTINATION = (
    "No destination for backups is set. Set it with: busbar settings set backup.destination FOLDER"
)


class Outcome(BaseModel):
    """A backup that was made, and those that were deleted after it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    destination: str
    size_bytes: int
    sha256: str
    version: str
    rows: int
    seconds: float
    created_at: datetime
    deleted: tuple[str, ...] = ()


def login() -> SftpLogin:
    """Return the login of the settings. The caller has loaded them."""
    values = current(BackupSettings)
    return SftpLogin(
        values.sftp_host_key,
        values.sftp_private_key.get_secret_value(),
        values.sftp_password.get_secret_value(),
    )


def make(*, to: str, report: Report) -> Outcome:
    """Make a backup at a destination and delete those beyond the number to keep. Blocks.

    Writes no rows: `record_outcome` does. Raises BackupError.
    """
    if not to:
        raise BackupError(NO_DESTINATION)
    require_outside(to)
    with opened(to, login()) as destination:
        made = make_backup(destination, report)
        deleted = delete_old(destination, to)
    return Outcome(
        name=made.name,
        destination=to,
        size_bytes=made.size,
        sha256=made.sha256,
        version=made.manifest.version,
        rows=sum(sum(counts.values()) for counts in made.manifest.counts.values()),
        seconds=round(made.seconds, 3),
        created_at=made.manifest.created_at,
        deleted=deleted,
    )


def delete_old(destination: Destination, text: str) -> tuple[str, ...]:
    """Delete the files of this appliance beyond the number to keep, and return their names.

    The new backup counts, but has no row yet. Files that no row names may be of another appliance.
    """
    kept = current(BackupSettings).keep_count - 1
    rows = Backup.objects.filter(destination=text).order_by("-created_at")
    names = tuple(rows.values_list("name", flat=True)[kept:])
    for name in names:
        destination.delete(name)
    return names


def require_outside(destination: str) -> None:
    """Raise BackupError for a folder that is lost together with the appliance's data."""
    data = settings.DATA_DIR.resolve()
    if destination.startswith("/") and Path(destination).resolve().is_relative_to(data):
        raise BackupError(f"{destination} is in the data folder, which a backup must survive.")


@write_transaction
def record_outcome(*, outcome: Outcome, actor: str) -> Backup:
    row = Backup.objects.create(**outcome.model_dump(exclude={"deleted"}))
    record_created(row)
    emit(
        "backup.created",
        path=row.path,
        actor=actor,
        message=f"Backup {row.name} was made and checked: {row.rows} rows, {row.size_bytes} bytes.",
        destination=row.destination,
    )
    for old in Backup.objects.filter(name__in=outcome.deleted):
        record_deleted(old)
        emit(
            "backup.deleted",
            path=old.path,
            actor=actor,
            message=f"Backup {old.name} was deleted: newer ones are kept.",
        )
        old.delete()
    return row


@write_transaction
def record_failure(*, reason: str, actor: str) -> None:
    emit("backup.failed", path="backups", actor=actor, message=f"No backup was made: {reason}")
