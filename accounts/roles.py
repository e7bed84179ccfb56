"""Which role of a membership gives which right. The only table of it."""

from enum import StrEnum


class Role(StrEnum):
    """What a member is to a customer (DESIGN section 2)."""

    OWNER = "OWNER"
    OPERATOR = "OPERATOR"
    VIEWER = "VIEWER"


class Right(StrEnum):
    """What a person may ask for. An operation names the one it needs."""

    VIEW = "VIEW"
    BACKUP = "BACKUP"
    RESTORE = "RESTORE"
    MANAGE = "MANAGE"
    APPROVE = "APPROVE"


RIGHTS: dict[Role, frozenset[Right]] = {
    Role.OWNER: frozenset({Right.VIEW, Right.BACKUP, Right.RESTORE, Right.APPROVE}),
    Role.OPERATOR: frozenset({Right.VIEW, Right.BACKUP}),
    Role.VIEWER: frozenset({Right.VIEW}),
}
# Making and removing sites stays with the hosting company in this version.
STAFF_RIGHTS = frozenset(Right)


def rights_of(role: str) -> frozenset[Right]:
    """Give the rights of a role; an unknown role has none (a check that cannot decide says no)."""
    try:
        return RIGHTS[Role(role)]
    except ValueError:
        return frozenset()
