"""Whether quotas and limits let a placed request start. Pure."""

from __future__ import annotations

from appliance.allocations.claims import Book, Rule, Wait, Waiter
from appliance.allocations.placement import Placed


def over_limit(book: Book, waiter: Waiter, placed: Placed) -> Wait | None:
    size = sum(s.compute_percent for s in placed.shares)
    for subject in waiter.subjects:
        e = book.entitlements.get(subject)
        if e is None:
            continue
        used = book.use[subject]
        if e.limit_percent is not None and used + size > e.limit_percent:
            return Wait(
                Rule.LIMIT,
                f"The limit of {subject.kind} {e.name} is {gpus(e.limit_percent)}, {gpus(used)} are in use, and this needs {gpus(size)}.",
            )
        if e.quota_percent is None:
            continue
        in_use = f"{gpus(used)} are in use, and this needs {gpus(size)}"
        if not e.borrows and used + size > e.quota_percent:
            return Wait(
                Rule.QUOTA,
                f"The quota of {subject.kind} {e.name} is {gpus(e.quota_percent)} without borrowing; {in_use}.",
            )
        fixed = book.holders.fixed_use[subject]
        if not waiter.preemptible and fixed + size > e.quota_percent:
            kept = f"What cannot be preempted must stay within the quota of {subject.kind} {e.name}, {gpus(e.quota_percent)}"
            return Wait(
                Rule.QUOTA,
                f"{kept}; {gpus(fixed)} are in use so, and this needs {gpus(size)}. A preemptible request may borrow.",
            )
    return None


def gpus(percent: int) -> str:
    return f"{percent / 100:g} GPUs"
