from django.apps import AppConfig
from django.core import checks

from audit.checks import check_key_file


class AuditConfig(AppConfig):
    name = "audit"
    verbose_name = "Audit trail"

    def ready(self) -> None:
        checks.register(check_key_file)
