"""What must be right before the panel starts."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error

from audit import keys
from audit.exceptions import KeyFileRefused


def check_key_file(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Say whether entries can be signed; without that nothing that must be recorded can be done."""
    try:
        keys.load()
    except KeyFileRefused as error:
        return [Error(str(error), hint="CHP_AUDIT_KEY_FILE names the file.", id="audit.E001")]
    return []
