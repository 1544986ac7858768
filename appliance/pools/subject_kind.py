"""Kinds of subjects that can have a quota."""

from __future__ import annotations

import enum


class SubjectKind(enum.StrEnum):
    USER = "user"
    PROJECT = "project"
    DEPARTMENT = "department"
