from typing import Any

from django.db import migrations, models

from audit.chain import GENESIS


def add_head(apps: Any, schema_editor: Any) -> None:
    """Make the one row that every writer locks; an empty table alone could not be locked."""
    apps.get_model("audit", "AuditHead").objects.using(schema_editor.connection.alias).create(
        id=1, sequence=0, mac=GENESIS
    )


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("sequence", models.BigIntegerField(primary_key=True, serialize=False)),
                ("at", models.CharField(max_length=27)),
                ("actor", models.CharField(max_length=200)),
                ("actor_kind", models.CharField(max_length=20)),
                ("tenant", models.CharField(blank=True, max_length=100)),
                ("action", models.CharField(max_length=40)),
                ("target", models.CharField(blank=True, max_length=300)),
                ("reason", models.TextField(blank=True)),
                ("result", models.CharField(blank=True, max_length=100)),
                ("data", models.TextField(default="{}")),
                ("key_id", models.CharField(max_length=40)),
                ("previous", models.CharField(max_length=64)),
                ("mac", models.CharField(max_length=64)),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "ordering": ["-sequence"],
                "indexes": [
                    models.Index(fields=["tenant", "-sequence"], name="audit_by_tenant"),
                    models.Index(fields=["target", "-sequence"], name="audit_by_target"),
                    models.Index(fields=["actor", "-sequence"], name="audit_by_actor"),
                    models.Index(fields=["action", "-sequence"], name="audit_by_action"),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("sequence", models.BigIntegerField()),
                ("mac", models.CharField(max_length=64)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="audit_head_is_one_row")
                ],
            },
        ),
        migrations.RunPython(add_head, migrations.RunPython.noop),
    ]
