"""Long runs of the data plane: `./test --long soak [PART...] [SECONDS]`.

The parts are kills, counts and starvation; all by default. Kills and starvation run for 600 s each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.suites import soak_counts, soak_kills, soak_starvation

SECONDS = 600.0
PARTS: dict[str, Callable[[float], list[str]]] = {
    "kills": soak_kills.soak,
    "counts": lambda _seconds: soak_counts.run_all(),
    "starvation": soak_starvation.soak,
}


def main() -> None:
    seconds = next((float(a) for a in sys.argv[1:] if a not in PARTS), SECONDS)
    for part in [a for a in sys.argv[1:] if a in PARTS] or PARTS:
        if problems := PARTS[part](seconds):
            raise SystemExit("\n".join([f"soak: {part} failed", *problems]))
        print(f"soak: {part} passed", flush=True)


if __name__ == "__main__":
    main()
