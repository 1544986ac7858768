"""Quotas of the caches of a node, against native code of a hostile tenant."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from tests.remoting.attacker import Attacker
from tests.remoting.node import NULL_DRIVER, LocalNode

MIB = 1 << 20
OTHER_TENANT = uuid.UUID(int=2)


@pytest.fixture(scope="module")
def node() -> Iterator[LocalNode]:
    node = LocalNode(
        NULL_DRIVER,
        BUSBAR_CACHE_TENANT_BYTES=str(8 * MIB),
        BUSBAR_CACHE_BYTES=str(6 * MIB),
    )
    yield node
    node.stop()


@pytest.fixture
def attacker(node: LocalNode, compiled: Callable[[str], Path]) -> Attacker:
    return Attacker(node, compiled("attack_client"))


@pytest.fixture
def foreign_image(node: LocalNode) -> Path:
    """An image of another tenant, which has not been used for years."""
    folder = images(node, OTHER_TENANT)
    folder.mkdir(exist_ok=True)
    image = folder / "image"
    image.write_bytes(b"x" * MIB)
    return image


def images(node: LocalNode, tenant: uuid.UUID) -> Path:
    return node.runtime / "images" / tenant.hex


def filled(node: LocalNode) -> list[Path]:
    """Return the files of `fill` that are left."""
    return list(images(node, node.tenant_id).glob("x.*"))


def test_session_that_fills_its_cache_is_trimmed_and_harms_no_other_tenant(
    node: LocalNode, attacker: Attacker, foreign_image: Path
) -> None:
    with attacker.start("fill /images/tenant/x 20", "pause") as program:
        try:
            assert program.stdout is not None and program.stdout.readline() == "0\n"
            log = node.folder / "launcher.log"
            wait_for("the cache to be trimmed", lambda: len(filled(node)) <= 5, log)
        finally:
            program.kill()
    assert foreign_image.exists()


def test_session_cannot_change_caches_of_other_tenants(
    attacker: Attacker, foreign_image: Path
) -> None:
    paths = [foreign_image, f"/images/tenant/../{OTHER_TENANT.hex}/image"]
    attacks = [f"{attack} {path}" for attack in ("remove", "set_times", "write") for path in paths]
    assert set(attacker.results(*attacks)) <= {errno.ENOENT, errno.EROFS}
    assert foreign_image.exists()


def test_session_sets_times_in_its_caches_only(attacker: Attacker) -> None:
    assert attacker.results("write /images/tenant/y", "set_times /images/tenant/y") == [0, 0]
    outside = ["/usr/lib", "/etc/machine-id", "/kernels/tenant", str(NULL_DRIVER)]
    assert set(attacker.results(*(f"set_times {path}" for path in outside))) <= {
        errno.EROFS,
        errno.EACCES,
        errno.ENOENT,
    }
