"""The installation script of the client, and the lines with which users fetch it."""

from __future__ import annotations

import re
from pathlib import Path

from appliance.installation.authority import PinnedAuthority
from appliance.installation.packages import Packages

FOLDER = Path(__file__).parent
MARK = re.compile(r"@([A-Z_0-9]+)@")
SCRIPT_NAME, CA_NAME = "client.sh", "ca.der"
PEM_NAME = "ca.pem"
"""All CAs that clients trust, for files of programs; `ca.der` has the one that issues."""
KIB = 1024
TO_PEM = (
    '(echo -----BEGIN CERTIFICATE-----; base64 "$d/ca.der"; echo -----END CERTIFICATE-----)'
    ' >"$d/ca.pem"'
)

REFUSE = (
    '{ echo "Nothing was run: another machine answers, or the CA was rotated.'
    ' Take a new line from: busbar install-line" >&2; false; }'
)
REMOVE_AT_END = """trap 'rm -r "$d"' EXIT; trap 'exit 130' HUP INT TERM"""
"""For a subshell: traps of the shell in which the line was pasted hold until that shell ends."""


def installation_script(url: str, authority: PinnedAuthority, packages: Packages) -> str:
    """Return the script with the address, the CA and the hashes of this appliance."""
    installed = packages.installed_bytes
    values = {
        "URL": url,
        "CA_SHA256": authority.sha256,
        "CA_PEM": authority.pem.strip(),
        "DEBIAN": packages.debian.name,
        "DEBIAN_SHA256": packages.debian.sha256,
        "DEBIAN_KIB": str(len(packages.debian.content) // KIB + 1),
        "ARCHIVE": packages.archive.name,
        "ARCHIVE_SHA256": packages.archive.sha256,
        "ARCHIVE_KIB": str(len(packages.archive.content) // KIB + 1),
        "INSTALLED_KIB": str(2 * installed // KIB),  # small files occupy whole blocks
        "UNPACK_PY": (FOLDER / "unpack.py").read_text().strip(),
    }
    return MARK.sub(lambda found: values[found[1]], (FOLDER / SCRIPT_NAME).read_text())


def curl_line(url: str, ca_sha256: str) -> str:
    """Return a shell line that trusts nothing but the CA with this fingerprint."""
    unverified = f'curl -fsSk {url}/install/{CA_NAME} -o "$d/ca.der"'
    script = f'curl -fsS --cacert "$d/ca.pem" {url}/install/{SCRIPT_NAME} -o "$d/client.sh"'
    return line(ca_sha256, unverified, script)


def wget_line(url: str, ca_sha256: str) -> str:
    """Return the same line for machines without curl."""
    unverified = f'wget -qO "$d/ca.der" --no-check-certificate {url}/install/{CA_NAME}'
    script = f'wget -qO "$d/client.sh" --ca-certificate="$d/ca.pem" {url}/install/{SCRIPT_NAME}'
    return line(ca_sha256, unverified, script)


def line(ca_sha256: str, fetch_ca: str, fetch_script: str) -> str:
    compare = f'{{ echo "{ca_sha256}  $d/ca.der" | sha256sum -c || {REFUSE}; }}'
    steps = " && ".join((fetch_ca, compare, TO_PEM, fetch_script, 'sh "$d/client.sh"'))
    return f"d=$(mktemp -d) && ({REMOVE_AT_END}; {steps})"
