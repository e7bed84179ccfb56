"""Settings of the processes in the engine's tests: the real ones, with these tests' operations and limits."""

from chp_site.settings import *  # noqa: F403 - a settings module extends another
from chp_site.settings import CHP_TYPE_LIMITS as DECLARED_LIMITS
from tests.engine.limits import BY_TYPE

CHP_OPERATIONS = "tests.engine.operations.OPERATIONS"
CHP_TYPE_LIMITS = {**DECLARED_LIMITS, **BY_TYPE}
