from __future__ import annotations

from django.db import IntegrityError, transaction

from appliance.activity.services import emit
from appliance.errors import ApplianceError, Code
from appliance.pools.models import DEFAULT_POOL, Pool
from appliance.writer import writes


@writes
def ensure_default_pool() -> None:
    """New GPUs go to the oldest pool."""
    Pool.objects.get_or_create(name=DEFAULT_POOL)


@writes
def pool_create(*, name: str, actor: str) -> Pool:
    try:
        with transaction.atomic():
            pool = Pool.objects.create(name=name)
    except IntegrityError:
        raise ApplianceError(Code.CONFLICT, f"There is a pool {name} already; choose another name.") from None
    emit("pool.created", path=pool.path, object_id=pool.pk, actor=actor, message=f"Pool {name} was created.")
    return pool
