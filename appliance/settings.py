"""Django settings, built from validated environment variables."""

from __future__ import annotations

import sys
import urllib.parse
from pathlib import Path
from typing import Any

from appliance.environment import read_environment

ENVIRONMENT = read_environment()
BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = ENVIRONMENT.data
DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)


def secret_key() -> str:
    """Return the secret key; create its file (mode 0600) on the first start."""
    import secrets

    path = DATA_DIR / "secret_key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50))
    return path.read_text()


def import_rest_framework() -> None:
    """Import it without packages that it imports if they are there, and that nothing here uses.

    They take 14 MB in each of two processes: psycopg, behind the first name, without PostgreSQL,
    and a package of the tool for the documentation.
    """
    names = [] if ENVIRONMENT.database else ["django.contrib.postgres.fields"]
    hidden = [name for name in [*names, "requests"] if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: not to be found
    import rest_framework.compat  # noqa: F401

    for name in hidden:
        del sys.modules[name]


import_rest_framework()
SECRET_KEY = secret_key()
DEBUG = ENVIRONMENT.debug
ALLOWED_HOSTS = ["*"]  # TLS proves the identity, and no response depends on the Host header
ROOT_URLCONF = "appliance.urls"
ASGI_APPLICATION = "appliance.http.application.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
STATIC_URL = "/static/"
CONSOLE_DIR = BASE_DIR / "frontend" / "dist"
"""Built console. Without it the appliance serves a page with build instructions."""
DOCUMENTATION_DIR = BASE_DIR / "build" / "site"
"""Built documentation site."""
if CONSOLE_DIR.is_dir():
    WHITENOISE_ROOT = CONSOLE_DIR  # file names under /assets contain a hash
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/assets/.+-[\w-]{8}\.\w+$"
WHITENOISE_USE_FINDERS = True  # Swagger UI comes from its package, without collectstatic or a CDN

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "appliance.audit",
    "appliance.configuration",
    "appliance.accounts",
    "appliance.signin",
    "appliance.activity",
    "appliance.inventory",
    "appliance.pools",
    "appliance.telemetry",
    "appliance.keys",
    "appliance.allocations",
    "appliance.notifications",
    "appliance.fleet",
    "appliance.backups",
    "appliance.alarms",
    "appliance.controller",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "appliance.http.console.content_security_policy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.common.CommonMiddleware",
]

TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]


def sqlite(name: str, synchronous: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / name,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": (
                f"PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; "
                "PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY;"
            ),
        },
    }


def postgresql(url: str) -> dict[str, Any]:
    """Return the settings of a PostgreSQL database.

    Several appliances may share it: constraints of the rows prevent double grants.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "postgresql" or len(parts.path) < 2:
        raise SystemExit(
            "BUSBAR_DATABASE must be postgresql://USER:PASSWORD@HOST:PORT/NAME or empty (SQLite)."
        )
    host = urllib.parse.parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": urllib.parse.unquote(parts.username or ""),
        "PASSWORD": urllib.parse.unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {  # of libpq; a server that does not answer is lost within seconds
            "connect_timeout": 5,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
        },
        "DISABLE_SERVER_SIDE_CURSORS": True,  # a pooler of transactions would lose them
    }


DATABASES: dict[str, Any] = {
    "default": postgresql(ENVIRONMENT.database)
    if ENVIRONMENT.database
    else sqlite("control.db", "FULL")
}
"""Synchronous mode FULL, because grants must survive a power failure."""
if not ENVIRONMENT.database:
    # Samples need not survive a power failure, and their writes must not delay grants.
    DATABASES["metrics"] = sqlite("metrics.db", "NORMAL")
DATABASE_ROUTERS = ["appliance.telemetry.router.MetricsRouter"]

PASSWORD_RESET_TIMEOUT = 3600
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "appliance.accounts.authentication.ApiTokenAuthentication",
        "appliance.accounts.authentication.CookieAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["appliance.accounts.authorization.HasPrivilege"],
    "DEFAULT_RENDERER_CLASSES": ["appliance.api.encoding.FastJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["appliance.api.parsing.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "appliance.api.pagination.CursorPagination",
    "DEFAULT_SCHEMA_CLASS": "appliance.api.openapi.DocumentedSchema",
    "EXCEPTION_HANDLER": "appliance.api.problems.problem_response",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Busbar",
    "DESCRIPTION": "Pools the GPUs of many servers and provides them over the network.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "appliance.api.description.complete.complete",
    ],
    "ENFORCE_NON_BLANK_FIELDS": True,
    "ENUM_NAME_OVERRIDES": {
        "AlarmStateEnum": "appliance.alarms.models.AlarmState",
        "AllocationStateEnum": "appliance.allocations.models.AllocationState",
        "HoldEnum": "appliance.allocations.models.Hold",
        "IsolationLevelEnum": "appliance.pools.isolation.IsolationLevel",
        "NodeStateEnum": "appliance.inventory.models.NodeState",
        "SecondFactorPolicyEnum": ["off", "optional", "privileged", "required"],
        "TaskStateEnum": "appliance.activity.models.TaskState",
    },
    "SCHEMA_PATH_PREFIX": "/api/v1/",
}

SECURE_CONTENT_TYPE_NOSNIFF = True
DATA_UPLOAD_MAX_MEMORY_SIZE = None  # http/request.py limits bodies
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "nodes.log_format.formatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "httpx": {"level": "WARNING"},
        # Strangers must not write a line per request. http/application.py logs failures itself.
        "django.request": {"level": "ERROR"},
        "django.security": {"level": "CRITICAL"},
        "uvicorn.error": {"level": "CRITICAL"},
        "paramiko": {"level": "CRITICAL"},  # its errors are raised, too
    },
}
