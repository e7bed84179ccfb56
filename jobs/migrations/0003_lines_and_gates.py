"""Gives jobs that are there already their place in line, and closed sites their gates."""

from collections import Counter

from django.db import migrations

CLOSING = ("RUNNING", "CANCEL_REQUESTED", "ORPHANED")


def stand_in_line(apps, schema_editor):
    """Have the first claims put every queued job in its place, as they do when its time comes."""
    job = apps.get_model("jobs", "Job")
    job.objects.filter(status="QUEUED").update(readiness="LATER")


def make_gates(apps, schema_editor):
    job = apps.get_model("jobs", "Job")
    gate = apps.get_model("jobs", "SiteGate")
    closing = job.objects.filter(status__in=CLOSING).exclude(lock="NONE").exclude(site=None)
    rows = Counter(closing.values_list("site_id", "lock", "mutating"))
    for site_id in {site_id for site_id, _, _ in rows}:
        gate.objects.create(
            site_id=site_id,
            exclusive=rows[site_id, "EXCLUSIVE", True] + rows[site_id, "EXCLUSIVE", False],
            mutating=rows[site_id, "EXCLUSIVE", True],
            shared=rows[site_id, "SHARED", True] + rows[site_id, "SHARED", False],
        )


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_engine")]

    operations = [
        migrations.RunPython(stand_in_line, migrations.RunPython.noop),
        migrations.RunPython(make_gates, migrations.RunPython.noop),
    ]
