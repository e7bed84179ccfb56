"""What tests do where something real is not there: skip by name, or fail where everything is demanded."""

import os
from typing import NoReturn

import pytest

REQUIRE = "CHP_REQUIRE_SERVICES"


def missing(group: str, reason: str) -> NoReturn:
    """Skip the test; fail it where CHP_REQUIRE_SERVICES=1 says that nothing may be missing."""
    if os.environ.get(REQUIRE) == "1":
        pytest.fail(f"{group}: {reason}", pytrace=False)
    pytest.skip(f"{group}: {reason}")
