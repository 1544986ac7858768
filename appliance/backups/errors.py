"""The error of backups."""

from __future__ import annotations


class BackupError(Exception):
    """A backup or restore cannot be done. The text says why, and what to do."""
