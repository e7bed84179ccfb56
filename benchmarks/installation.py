"""The installation that is measured: a folder with keys of its own, and the environment of its processes."""

import secrets
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# As many jobs at once as workers have slots: the limit over all is not what is measured.
MOST_AT_ONCE = "64"

# Where this variable is set, the no-op is handed out one at a time, as work is that is not brief.
ORDINARY = "CHP_BENCH_ORDINARY"


def make_keys(state: Path) -> None:
    """Make the keys that `hosting-setup` would make."""
    _write(state / "keys" / "secret.key", secrets.token_urlsafe(48))
    _write(state / "keys" / "audit.key", f"audit-1 {secrets.token_hex(32)}\n")


def environment(state: Path, url: str) -> dict[str, str]:
    """Give the variables of an installation in this folder, on this database, with an empty configuration."""
    config = state / "hosting.conf"
    config.touch()
    return {
        "CHP_CONFIG": str(config),
        "CHP_STATE_DIR": str(state),
        "CHP_DATABASE_URL": url,
        "CHP_HTTPS": "0",
        "CHP_ALLOW_TEST_DOMAINS": "1",
        "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
    }


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
