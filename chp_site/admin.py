"""Admin pages of libraries that staff must not have: what they do there would be in no trail."""

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib import admin
from django.contrib.auth.models import Group
from django.db.models import Model
from django_q.models import Failure, OrmQ, Schedule, Success
from knox.models import get_token_model

REMOVED: tuple[type[Model], ...] = (
    # A schedule names a function to run: rows of that table come from the code alone.
    *(Schedule, Success, Failure, OrmQ),
    # A token made for somebody else is a login as somebody else.
    get_token_model(),
    # Taking a lock-out away is a login attempt more.
    *(AccessAttempt, AccessFailureLog, AccessLog),
    # Rights are given to people, one by one and recorded.
    Group,
)
for model in REMOVED:
    admin.site.unregister(model)
