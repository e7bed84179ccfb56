"""What the panel's tests begin with."""

import pytest

from backups.models import Backup
from jobs.models import Job
from tests.cast import Cast
from tests.panel.samples import make_backup, make_job


@pytest.fixture
def backup(cast: Cast) -> Backup:
    return make_backup(cast.site)


@pytest.fixture
def job(cast: Cast) -> Job:
    return make_job(cast.site)
