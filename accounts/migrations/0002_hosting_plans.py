"""Seed the five hosting plans as rows that staff may edit (DESIGN section 10)."""

from typing import ClassVar

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

# code, name, RPO hours, restore class, weekly, monthly, sites, GiB
PLANS = (
    ("starter", "Starter", 24, "BEST_EFFORT", False, False, 1, 10),
    ("business", "Business", 24, "BEST_EFFORT", False, False, 5, 50),
    ("professional", "Professional", 24, "PRIORITY", True, False, 20, 200),
    ("business-plus", "Business Plus", 24, "PRIORITY", True, True, 50, 500),
    ("premium", "Premium", 6, "FIRST", True, True, 100, 1000),
)


def seed(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    plans = apps.get_model("accounts", "HostingPlan").objects
    for code, name, recovery_point, restore_time, weekly, monthly, sites, storage in PLANS:
        plans.get_or_create(
            code=code,
            defaults={
                "name": name,
                "recovery_point_hours": recovery_point,
                "restore_time": restore_time,
                "allows_weekly": weekly,
                "allows_monthly": monthly,
                "most_sites": sites,
                "most_storage_gib": storage,
            },
        )


class Migration(migrations.Migration):
    dependencies: ClassVar = [("accounts", "0001_initial")]
    operations: ClassVar = [migrations.RunPython(seed, migrations.RunPython.noop)]
