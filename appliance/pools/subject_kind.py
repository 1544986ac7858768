"""Whom a quota can be for."""

from __future__ import annotations

import enum


class SubjectKind(enum.StrEnum):
    USER = "user"
    PROJECT = "project"
    DEPARTMENT = "department"
