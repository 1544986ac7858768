"""Django's settings, from typed environment readers that fail loudly."""

from __future__ import annotations

import urllib.parse
from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Environment(BaseSettings):
    """Every variable that the appliance reads, each with the prefix BUSBAR_."""

    model_config = SettingsConfigDict(env_prefix="BUSBAR_")

    data: Path = Path(__file__).resolve().parent.parent / "var"
    """Folder for the database, keys and logs; made 0700."""
    database: str = ""
    """postgresql://USER:PASSWORD@HOST:PORT/NAME; empty: SQLite in the data folder."""
    listen: str = "127.0.0.1"
    https_port: int = Field(8443, ge=1, le=65535)
    fleet_port: int = Field(8444, ge=1, le=65535)
    advertise: str = "127.0.0.1"
    """The address under which nodes and clients reach this appliance."""
    hold_seconds: float = Field(25.0, gt=0)
    """An allocation without a live session or a heartbeat for so long is released; with reports and fences it is over within 30 s."""
    fair_share_half_life_seconds: float = Field(7 * 86400.0, gt=0)
    """Half of what a project has had is forgotten in this time."""
    preemption_grace_seconds: float = Field(30.0, ge=0)
    """Notice that a holder gets before its allocation is taken back for another."""
    heartbeat_seconds: float = Field(1.0, gt=0)
    """Cadence of heartbeats and samples that agents are asked for."""
    unreachable_seconds: float = Field(15.0, gt=0)
    ssh_seconds: float = Field(20.0, gt=0)
    """How long a host may take to answer one step of the SSH handshake."""
    bundle: Path = Path(__file__).resolve().parent.parent / "build" / "bundle"
    """What machines need to become nodes, as deploy/bundle.py made it."""
    debug: bool = False


ENVIRONMENT = Environment()
BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = ENVIRONMENT.data
DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)


def secret_key() -> str:
    """Made once, 0600, outside the database."""
    import secrets

    path = DATA_DIR / "secret_key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50))
    return path.read_text()


SECRET_KEY = secret_key()
DEBUG = ENVIRONMENT.debug
ALLOWED_HOSTS = ["*"]  # the certificate says who we are; no page is built from the Host header
ROOT_URLCONF = "appliance.urls"
ASGI_APPLICATION = "appliance.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
STATIC_URL = "/static/"
CONSOLE_DIR = BASE_DIR / "frontend" / "dist"
"""The built console; without it the appliance serves a page that says how to build it."""
if CONSOLE_DIR.is_dir():
    WHITENOISE_ROOT = CONSOLE_DIR  # hashed names under /assets
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/assets/.+-[\w-]{8}\.\w+$"
WHITENOISE_USE_FINDERS = True  # the API page comes out of its package: no collectstatic, no CDN

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "appliance.accounts",
    "appliance.activity",
    "appliance.inventory",
    "appliance.pools",
    "appliance.telemetry",
    "appliance.allocations",
    "appliance.fleet",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "appliance.console.content_security_policy",
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
            "init_command": f"PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY;",
        },
    }


def postgresql(url: str) -> dict[str, Any]:
    """Several appliances may use it: guards in the rows keep grants single."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "postgresql" or len(parts.path) < 2:
        raise SystemExit(
            "BUSBAR_DATABASE must be postgresql://USER:PASSWORD@HOST:PORT/NAME, or empty for SQLite."
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
    }


DATABASES: dict[str, Any] = {
    "default": postgresql(ENVIRONMENT.database)
    if ENVIRONMENT.database
    else sqlite("control.db", "FULL")
}
"""A grant must survive a power cut."""
if not ENVIRONMENT.database:
    DATABASES["metrics"] = sqlite(
        "metrics.db", "NORMAL"
    )  # readings need not, and their writes must not stand in a grant's way
DATABASE_ROUTERS = ["appliance.telemetry.router.MetricsRouter"]

CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

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
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["appliance.encoding.FastJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_PAGINATION_CLASS": "appliance.rest.CursorPage",
    "DEFAULT_SCHEMA_CLASS": "appliance.openapi.DocumentedSchema",
    "EXCEPTION_HANDLER": "appliance.rest.problem_response",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Busbar",
    "DESCRIPTION": "Pools the GPUs of many servers and hands them out over the network.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "APPEND_COMPONENTS": {
        "responses": {
            "Problem": {
                "description": "Why not.",
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            }
        }
    },
    "ENFORCE_NON_BLANK_FIELDS": True,
    "SCHEMA_PATH_PREFIX": "/api/v1/",
}

SECURE_CONTENT_TYPE_NOSNIFF = True
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {"httpx": {"level": "WARNING"}},
}
