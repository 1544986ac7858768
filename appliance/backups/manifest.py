"""Manifest of a backup: what it contains and how to check it. The first member of its archive."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.backups.errors import BackupError

FORMAT = 1
"""Grows when this release could not read the backups of a later one."""
NAME = "manifest.json"
MAX_BYTES = 4 << 20
CONTROL, METRICS, POSTGRESQL = "control.db", "metrics.db", "control.pgdump"
KEY_NAMES = (
    r"secret_key|backup-recipients|initial-admin-password|ca\.pem|server\.(pem|key)"
    r"|ca(-[0-9a-f]{8})?\.key|ticket_key(-[0-9a-f]{8})?"
)
"""Names of the files of the data folder that are in a backup beside the database."""
FILE_PATTERN = rf"^({KEY_NAMES}|control\.db|metrics\.db|control\.pgdump)$"
Counts = dict[str, int]
"""Number of rows by table."""


class FileEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1]
    id: str = Field(pattern=r"^[0-9a-f]{8}$")
    created_at: datetime
    version: str
    """Version of the appliance."""
    database: Literal["sqlite", "postgresql"]
    ca_sha256: str
    """Fingerprint of the CA that issues certificates."""
    migrations: tuple[str, ...]
    """Those that the database has applied, as app.name."""
    counts: dict[str, Counts]
    """By file of a database."""
    files: dict[Annotated[str, Field(pattern=FILE_PATTERN)], FileEntry]
    environment: dict[str, str]
    """Variables BUSBAR_* of the appliance, without the database and its password."""


def parse(text: bytes) -> Manifest:
    """Return the manifest. Raises BackupError for another format."""
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("format",):
            raise BackupError(
                "The backup was made by a newer release. Restore it with the release that made "
                f"it, or a later one (format {first['input']}, this release reads {FORMAT})."
            ) from None
        place = ".".join(map(str, first["loc"]))
        raise BackupError(f"The backup has no valid manifest: {place}: {first['msg']}.") from None
