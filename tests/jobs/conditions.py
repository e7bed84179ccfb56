"""Settings of worker processes under conditions that a test chooses by variables of the environment.

`TEST_CLOCK_AHEAD`: seconds by which the process's clock is wrong. `TEST_BUSY_SECONDS`: how long SQLite waits
for a lock. `TEST_SLOT_SECONDS`: how long a slot takes to start, one after another; then it leaves a line in
`TEST_SLOT_MARK`. `TEST_SLOT_BROKEN`: while this file exists, no slot can start.
"""

import fcntl
import os
import sys
import time
from pathlib import Path

from tests.worker_settings import *  # noqa: F403 - a settings module extends another
from tests.worker_settings import DATABASES

SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.jobs.conditions"}
AHEAD = float(os.environ.get("TEST_CLOCK_AHEAD", "0"))

if "transaction_mode" in DATABASES["default"].get("OPTIONS", {}):
    DATABASES["default"]["OPTIONS"]["timeout"] = float(os.environ.get("TEST_BUSY_SECONDS", "20"))

if AHEAD:
    _right = time.time
    time.time = lambda: _right() + AHEAD

if "hosting_slot" in sys.argv and Path(os.environ.get("TEST_SLOT_BROKEN", "/nonexistent")).exists():
    sys.exit(3)

if "hosting_slot" in sys.argv and "TEST_SLOT_MARK" in os.environ:
    with Path(os.environ["TEST_SLOT_MARK"]).open("a") as _file:
        fcntl.flock(_file, fcntl.LOCK_EX)
        time.sleep(float(os.environ.get("TEST_SLOT_SECONDS", "0")))
        _file.write(f"{os.getpid()}\n")
