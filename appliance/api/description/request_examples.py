"""Examples of request bodies that the fields alone do not give: some exclude each other."""

from __future__ import annotations

from typing import Any

from appliance.api.description.fields import MEMORY, UUID

REQUEST_EXAMPLES: dict[str, Any] = {
    "login_create": {"username": "alice", "password": "correct horse battery staple"},
    "browser_login_create": {"username": "alice", "password": "correct horse battery staple"},
    "bulk_create": {
        "operations": [
            {"method": "POST", "path": "sites", "body": {"name": "hall-2"}},
            {"method": "GET", "path": "pools"},
        ],
        "atomic": False,
    },
    "alarms_acknowledge_create": {"text": "The fan is ordered."},
    "alarm_definitions_create": {
        "name": "GPU hot",
        "severity": "critical",
        "object_kind": "gpu",
        "condition": "metric",
        "metric": "temperature_celsius",
        "threshold": 80.0,
        "raise_after_seconds": 300,
    },
    "alarm_definitions_partial_update": {"severity": "warning", "raise_after_seconds": 60},
    "allocations_create": {"project": "default", "name": "train", "gpu_count": 1, "percent": 25},
    "enrolment_tokens_create": {},
    "gpus_partial_update": {"labels": {"rack": "r1"}, "notes": "new fan"},
    "gpus_admit_create": {"pool": "default"},
    "groups_members_create": {"user": "alice"},
    "key_rotations_start_create": {"hold_seconds": 60.0},
    "key_rotations_advance_create": {"force": False},
    "me_notifications_partial_update": {"start": False},
    "nodes_partial_update": {"labels": {"rack": "r1"}, "notes": ""},
    "nodes_enrol_ssh_create": {
        "address": "192.0.2.10",
        "port": 22,
        "username": "root",
        "password": "correct horse battery staple",
    },
    "nodes_enter_maintenance_create": {"grace_seconds": 300.0},
    "pools_create": {"name": "night", "policies": ["pack"], "max_lifetime_seconds": 28_800},
    "pools_partial_update": {"policies": ["spread"], "max_idle_seconds": 3600},
    "projects_create": {"name": "vision"},
    "projects_partial_update": {"name": "vision-2"},
    "quotas_create": {
        "subject_kind": "project",
        "subject": "default",
        "quota_gpus": 2.0,
        "limit_gpus": 4.0,
    },
    "quotas_partial_update": {"limit_gpus": 4.0},
    "reservations_create": {
        "name": "course",
        "pool": "default",
        "project": "default",
        "gpu_count": 1,
        "percent": 100,
        "starts_at": "2027-03-01T09:00:00Z",
        "ends_at": "2027-03-01T17:00:00Z",
        "allow_pending": True,
    },
    "role_bindings_create": {"role": "user", "user": "alice", "project": "default"},
    "roles_create": {"name": "auditor", "privileges": ["audit.read"]},
    "settings_partial_update": {"retention": {"events_days": 30}},
    "settings_test_mail_create": {"to": "admin@example.org"},
    "tokens_create": {"name": "ci", "lifetime_seconds": 2_592_000, "scopes": ["viewer"]},
    "allocations_partial_update": {"percent": 35},
    "users_create": {"username": "alice", "email": "alice@example.org"},
    "users_partial_update": {"email": "alice@example.org"},
    "actions_create": {"objects": [f"nodes/{UUID}"]},
}
"""Body by operation id."""

PARAMETER_EXAMPLES: dict[str, Any] = {
    "labels": "rack=r1,tier in (gold, silver)",
    "limit": 50,
    "memory_bytes": MEMORY,
    "order": "-created_at",
    "wait": 10,
}
