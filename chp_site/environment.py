"""Reads the settings' values: the environment first, then the configuration file."""

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from environs import Env, EnvError

DEFAULT_CONFIG = Path("/etc/cresignsys/hosting.conf")
MIN_KEY_BYTES = 32


def load(config: Path | None = None) -> Env:
    """Give the reader of settings. The file is the one named by CHP_CONFIG, else DEFAULT_CONFIG if it exists.

    Raises ImproperlyConfigured when CHP_CONFIG names a file that cannot be read.
    """
    env = Env()
    named = os.environ.get("CHP_CONFIG")
    path = config or Path(named or DEFAULT_CONFIG)
    if named and not path.is_file():
        raise ImproperlyConfigured(f"CHP_CONFIG names {path}, which is not a readable file.")
    if path.is_file() and os.access(path, os.R_OK):
        env.read_env(str(path), recurse=False, override=False)
    return env


def bounded(env: Env, name: str, default: float, lowest: float, highest: float) -> float:
    """Read a number within bounds (inclusive); anything else stops the start with the variable's name."""
    try:
        value = env.float(name, default)
    except EnvError as error:
        raise ImproperlyConfigured(f"{name} must be a number: {error}") from error
    if not lowest <= value <= highest:
        raise ImproperlyConfigured(f"{name} is {value:g}; it must be from {lowest:g} to {highest:g}.")
    return value


def whole(env: Env, name: str, default: int, lowest: int, highest: int) -> int:
    """Read a whole number within bounds (inclusive)."""
    value = bounded(env, name, default, lowest, highest)
    if value != int(value):
        raise ImproperlyConfigured(f"{name} is {value:g}; it must be a whole number.")
    return int(value)


def secret_from(path: Path, name: str) -> str:
    """Read a secret from its own file, so that it stands neither in the environment nor in a process list.

    Raises ImproperlyConfigured when the file is missing, short, or readable by others.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(
            f"{name}: cannot read {path} ({error}). Run hosting-setup to make the keys of this installation."
        ) from error
    if mode & 0o077:
        raise ImproperlyConfigured(f"{name}: {path} may be read by others; run: chmod 600 {path}")
    if len(text) < MIN_KEY_BYTES:
        raise ImproperlyConfigured(f"{name}: {path} holds fewer than {MIN_KEY_BYTES} characters.")
    return text
