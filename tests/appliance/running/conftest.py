"""An appliance that the tests of this folder share: each start costs 4 s of processor time.

The tests add users and pools with names of their own, and set changed settings back. Those that
stop the appliance, or need other limits or an own first sign-in, start one of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.appliance.appliance_process import ApplianceProcess, started
from tests.tokens import create_token


@pytest.fixture(scope="package")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApplianceProcess]:
    with started(tmp_path_factory.mktemp("appliance"), BUSBAR_LOG_FORMAT="json") as running:
        yield running


@pytest.fixture(scope="package")
def token(appliance: ApplianceProcess) -> str:
    """Return a token of the administrator `local`."""
    return create_token(appliance.data)
