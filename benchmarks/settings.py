"""Settings of the benchmarks: the product's own, with the benchmarks' operations and no others."""

import os

from benchmarks import statement_count
from chp_site.settings import *  # noqa: F403 - a settings module extends another

CHP_OPERATIONS = "benchmarks.operations.OPERATIONS"

if statement_count.VARIABLE in os.environ:
    statement_count.install()
