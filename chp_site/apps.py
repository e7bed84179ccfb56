"""Start of every process of the panel."""

from pathlib import Path

from django.apps import AppConfig
from django.conf import settings

from audit.redaction import register_secret


class ChpSiteConfig(AppConfig):
    name = "chp_site"
    verbose_name = "CHP"

    def ready(self) -> None:
        """Make the secrets of this installation known to the one place that masks them."""
        register_secret(settings.SECRET_KEY)
        register_secret(settings.DATABASES["default"].get("PASSWORD") or "")
        for path in (settings.CHP_AUDIT_KEY_FILE, *Path(settings.CHP_AGENT_KEYS_DIR).glob("*.key")):
            register_secret(_content(Path(path)))


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip().rpartition(" ")[2]
    except (OSError, UnicodeDecodeError):
        # Whoever needs the key will say so; here there is then nothing to mask.
        return ""
