"""Errors of the actions of alarms."""

from __future__ import annotations


class ActionError(Exception):
    """The action failed and is tried again."""


class ActionRefusedError(Exception):
    """The action cannot be done, whenever it is tried."""
