"""AUTHORIZATION: may this actor ask for this operation here? Asked by every face and again at execution."""

from accounts.actor import Actor, ActorKind, actor_for, operator, system
from accounts.models import User
from jobs.exceptions import Forbidden, NotVisible
from jobs.models import Job
from jobs.operation import Operation
from jobs.profile import Priority
from sites.exceptions import SiteNotFound
from sites.models import Site, SiteState
from sites.queries import rights_on, site_visible_to


def authorize(actor: Actor, operation: Operation, site_id: int) -> Site:
    """Give the site if the actor may. Raises NotVisible for what the actor must not see, else Forbidden."""
    try:
        site = site_visible_to(actor, site_id)
    except SiteNotFound as error:
        raise NotVisible(str(error)) from error
    require(actor, operation, site)
    return site


def require(actor: Actor, operation: Operation, site: Site) -> None:
    """Raise Forbidden, in a sentence, unless right, capability and state allow the operation."""
    require_right(actor, operation, site)
    if not site.may(operation.capability):
        raise Forbidden(
            f"{site} does not allow {operation.title}: its capabilities lack {operation.capability.value} "
            f"(preset {site.preset})."
        )
    if site.state == SiteState.DELETED:
        raise Forbidden(f"{site} was deleted; nothing can be done to it.")


def require_right(actor: Actor, operation: Operation, site: Site) -> None:
    """Raise Forbidden, in a sentence, unless the actor has the right, whatever the site allows."""
    if operation.right not in rights_on(actor, site):
        raise Forbidden(
            f"{actor.name} may see {site} but not ask for {operation.title} there: "
            f"the right {operation.right.value} is missing."
        )


def require_priority(actor: Actor, wanted: Priority | None, default: Priority) -> Priority:
    """Give the priority of the job; only staff may go above the type's default. Raises Forbidden."""
    if wanted is None or wanted >= default:
        return default if wanted is None else wanted
    if not actor.may_operate:
        raise Forbidden(f"Only staff may ask for priority {wanted.name}; this type has {default.name}.")
    return wanted


def requester_of(job: Job) -> Actor:
    """Give the actor who asked for a job, with the rights of today: a removed user has none."""
    if job.requested_kind == ActorKind.SYSTEM:
        return system("worker")
    if job.requested_kind == ActorKind.OPERATOR:
        return operator(job.requested_by)
    return actor_for(User.objects.filter(pk=job.requested_by_user_id or 0).first(), "worker")
