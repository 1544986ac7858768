"""The ways in which a program reaches its session server, by the client's environment."""

from __future__ import annotations

MODES = {
    "shared memory": {},
    "TLS": {"BUSBAR_TRANSPORT": "tls"},
    "without arenas": {"BUSBAR_ARENA": "0"},
    "TLS without arenas": {"BUSBAR_TRANSPORT": "tls", "BUSBAR_ARENA": "0"},
}
WITH_ARENAS = [mode for mode in MODES if "BUSBAR_ARENA" not in MODES[mode]]
