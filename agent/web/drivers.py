"""Which web server this agent has."""

from collections.abc import Callable

from agent.exceptions import ActionFailed
from agent.policy import Policy
from agent.web.builtin import BuiltinDriver
from agent.web.driver import WebDriver

DRIVERS: dict[str, Callable[[Policy], WebDriver]] = {"builtin": BuiltinDriver}


def web_driver(policy: Policy) -> WebDriver:
    """Give the driver that the policy names. Raises ActionFailed for one that there is not."""
    if policy.web_driver not in DRIVERS:
        raise ActionFailed(
            f"the policy names the web driver {policy.web_driver!r}; there is {', '.join(DRIVERS)}"
        )
    return DRIVERS[policy.web_driver](policy)
