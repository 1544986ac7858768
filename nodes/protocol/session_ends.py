"""The reason of a session's end for which the appliance knows more than the node."""

from __future__ import annotations

RELEASED = "its allocation was released"
"""The launcher (remoting/launcher/sessions.cc) ended it, because its grant was revoked."""
