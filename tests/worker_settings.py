"""Settings of worker processes in tests: the real ones, with the sample operations installed."""

from chp_site.settings import *  # noqa: F403 - a settings module extends another

CHP_OPERATIONS = "tests.jobs.sample_operations.OPERATIONS"
