"""Who acts: the value that every stage after the request carries."""

from dataclasses import dataclass
from enum import StrEnum

from accounts.models import User


class ActorKind(StrEnum):
    CUSTOMER = "CUSTOMER"
    STAFF = "STAFF"
    OPERATOR = "OPERATOR"
    SYSTEM = "SYSTEM"
    ANONYMOUS = "ANONYMOUS"


@dataclass(frozen=True)
class Actor:
    """Who acts and by which face.

    `user_id` is None for an operator at the server's shell, for the system itself and for nobody.
    `face` is the way in: admin, panel, api, command, scheduler or worker.
    """

    kind: ActorKind
    name: str
    face: str
    user_id: int | None = None
    may_operate: bool = False

    @property
    def label(self) -> str:
        """How events and the trail call this actor."""
        return f"{self.name} ({self.face})"


def actor_for(user: object, face: str) -> Actor:
    """Give the actor for a request's user. An inactive or anonymous one may do nothing."""
    if not isinstance(user, User) or not user.is_active:
        return Actor(ActorKind.ANONYMOUS, "anonymous", face)
    if user.is_staff:
        may = user.has_perm("sites.operate_site")
        return Actor(ActorKind.STAFF, user.username, face, user.pk, may_operate=may)
    return Actor(ActorKind.CUSTOMER, user.username, face, user.pk)


def operator(name: str) -> Actor:
    """The person at the server's own shell, who already may read the keys and the database."""
    return Actor(ActorKind.OPERATOR, name, "command", may_operate=True)


def system(face: str) -> Actor:
    """The control plane itself: scheduler, sweeper, worker."""
    return Actor(ActorKind.SYSTEM, "system", face, may_operate=True)
