"""The query parameters of the lists."""

from datetime import datetime, timedelta
from typing import ClassVar

import django_filters
from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from backups.models import Backup, Integrity, ScheduleType
from jobs.models import Job
from jobs.states import Status
from sites.models import Site, SiteState

# PostgreSQL takes no zone that is so far from UTC.
TOO_FAR = timedelta(hours=16)


def _require_usual_time(moment: datetime) -> None:
    # At the ends of the calendar a change of time zone has nowhere to go.
    if not 1970 <= moment.year < 9000:
        raise ValidationError("Give a year from 1970 to 8999.")
    offset = moment.utcoffset() or timedelta(0)
    if abs(offset) >= TOO_FAR:
        raise ValidationError("Give a time zone that is less than 16 hours from UTC.")


class SiteFilter(django_filters.FilterSet):
    """Sites by state, domain or customer."""

    state = django_filters.ChoiceFilter(choices=SiteState.choices)
    domain = django_filters.CharFilter(lookup_expr="iexact")
    customer = django_filters.CharFilter(field_name="customer__code")

    class Meta:
        model = Site
        fields: ClassVar = ["state", "domain", "customer"]


class JobFilter(django_filters.FilterSet):
    """Jobs by state, type, site or time of creation."""

    status = django_filters.MultipleChoiceFilter(choices=Status.choices)
    type = django_filters.CharFilter(field_name="job_type")
    site = django_filters.NumberFilter(method="of_site", min_value=1, max_value=2**62)
    created_after = django_filters.IsoDateTimeFilter(
        field_name="created_at", lookup_expr="gte", validators=[_require_usual_time]
    )
    created_before = django_filters.IsoDateTimeFilter(
        field_name="created_at", lookup_expr="lt", validators=[_require_usual_time]
    )

    class Meta:
        model = Job
        fields: ClassVar = ["status", "type", "site", "created_after", "created_before"]

    def of_site(self, queryset: QuerySet[Job], name: str, value: int) -> QuerySet[Job]:
        """Keep the jobs of one site."""
        return queryset.filter(site_id=int(value))


class BackupFilter(django_filters.FilterSet):
    """Backups by site, integrity or reason."""

    site = django_filters.NumberFilter(method="of_site", min_value=1, max_value=2**62)
    integrity = django_filters.MultipleChoiceFilter(choices=Integrity.choices)
    schedule_type = django_filters.MultipleChoiceFilter(choices=ScheduleType.choices)

    class Meta:
        model = Backup
        fields: ClassVar = ["site", "integrity", "schedule_type"]

    def of_site(self, queryset: QuerySet[Backup], name: str, value: int) -> QuerySet[Backup]:
        """Keep the backups of one site."""
        return queryset.filter(site_id=int(value))
