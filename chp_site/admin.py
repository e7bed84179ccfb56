"""Admin pages of libraries that staff must not have."""

from django.contrib import admin
from django_q.models import Failure, OrmQ, Schedule, Success

# A schedule names a function to run: rows of that table come from the code alone (chp_site/schedules.py).
for model in (Schedule, Success, Failure, OrmQ):
    admin.site.unregister(model)
