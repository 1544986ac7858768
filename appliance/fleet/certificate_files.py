"""Certificate and key of the servers, as files that the controller replaces while in use."""

from __future__ import annotations

import os
from pathlib import Path

from appliance.fleet.certificates import is_pair


class CertificateFiles:
    """Contents of the files. Thread-safe if one thread calls `changed`."""

    def __init__(self, certificate: Path, key: Path, *others: Path) -> None:
        self._paths = (certificate, key, *others)
        self._read = self._state()

    def contents(self) -> tuple[bytes, ...]:
        return tuple(path.read_bytes() for path in self._paths)

    def changed(self) -> tuple[bytes, ...] | None:
        """Return the new contents, or None if they are the same.

        Between the replacement of the key and that of the certificate they do not belong together;
        the files then count as unchanged.
        """
        state = self._state()
        if state == self._read:
            return None
        certificate, key, *others = self.contents()
        if not is_pair(certificate, key):
            return None
        self._read = state
        return certificate, key, *others

    def _state(self) -> tuple[tuple[int, int], ...]:
        return tuple((s.st_ino, s.st_mtime_ns) for s in map(os.stat, self._paths))
