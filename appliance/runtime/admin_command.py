"""Lines of `busbar-admin` that texts show: they work as they are, in any folder of the machine."""

from __future__ import annotations

import shlex
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def admin_command(data: Path, *arguments: str) -> str:
    """Return a line for a shell on the appliance's machine. `data` is the appliance's folder."""
    words = [str(CHECKOUT / "busbar-admin")]
    if data != CHECKOUT / "var" / "appliance":
        # --data names the folder above one that is called `appliance`.
        words = ["env", f"BUSBAR_DATA={data}", *words]
        if data.name == "appliance":
            words = [words[-1], "--data", str(data.parent)]
    return shlex.join([*words, *arguments])
