"""Content that a node signs with its agent key to renew its certificates."""

from __future__ import annotations

import json

CONTEXT = "busbar certificate renewal 1"
"""Separates these signatures from any other use of the key."""


def signed_content(certificate_pem: str, agent_csr: str, launcher_csr: str) -> bytes:
    texts = (certificate_pem, agent_csr, launcher_csr)
    return json.dumps([CONTEXT, *(text.strip() for text in texts)]).encode()
