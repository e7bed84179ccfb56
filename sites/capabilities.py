"""What may be done to a site, apart from who asks."""

from enum import StrEnum


class Capability(StrEnum):
    """One thing that may be done to a site (DESIGN section 2)."""

    MONITOR = "MONITOR"
    BACKUP = "BACKUP"
    MANAGE = "MANAGE"
    RESTORE = "RESTORE"
    APPROVE = "APPROVE"


READ_ONLY: tuple[Capability, ...] = (Capability.MONITOR, Capability.BACKUP)
FULL: tuple[Capability, ...] = tuple(Capability)
PRESETS: dict[str, tuple[Capability, ...]] = {"READ_ONLY": READ_ONLY, "FULL": FULL}


def normalised(names: list[str]) -> list[str]:
    """Give known capability names once each, in the order of the enumeration.

    Raises ValueError naming the first that is unknown.
    """
    known = {capability.value for capability in Capability}
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is not a capability; choose from {', '.join(sorted(known))}.")
    return [capability.value for capability in Capability if capability.value in names]


def preset_of(names: list[str]) -> str:
    """Give the preset's name that equals these capabilities, else CUSTOM."""
    for preset, capabilities in PRESETS.items():
        if set(names) == {capability.value for capability in capabilities}:
            return preset
    return "CUSTOM"
