"""Who is in front of a page, and the look-ups that are the permission to see."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRefresh

from accounts.actor import Actor, actor_for
from backups.exceptions import BackupNotFound
from backups.models import Backup
from backups.queries import backup_visible_to
from jobs.exceptions import NotVisible
from jobs.models import Job, job_id_of
from jobs.queries import job_visible_to
from sites.exceptions import SiteNotFound
from sites.models import Site
from sites.queries import site_visible_to

Rest = ParamSpec("Rest")
View = Callable[Concatenate[HttpRequest, Rest], HttpResponse]


def signed_in(view: View[Rest]) -> View[Rest]:
    """Let only people who have logged in reach the view; its pages stay in no cache."""

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: Rest.args, **kwargs: Rest.kwargs) -> HttpResponse:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        if getattr(request, "htmx", False):
            # A fragment must not be replaced by the login page: the whole page asks again, and goes there.
            return HttpResponseClientRefresh()
        # What was to be changed is not repeated after the login; only a page is come back to.
        if request.method == "POST":
            return redirect("panel:login")
        return redirect_to_login(request.get_full_path())

    return never_cache(guarded)


def actor_of(request: HttpRequest) -> Actor:
    """Give who asks."""
    return actor_for(request.user, "panel")


def site_or_404(actor: Actor, site_id: int) -> Site:
    """Give a site of the actor's. Raises Http404 for a foreign one as for a missing one."""
    try:
        return site_visible_to(actor, site_id)
    except SiteNotFound as error:
        raise Http404 from error


def job_or_404(actor: Actor, code: str) -> Job:
    """Give a job of the actor's. Raises Http404 for a foreign one as for a missing one."""
    try:
        return job_visible_to(actor, job_id_of(code))
    except NotVisible as error:
        raise Http404 from error


def backup_or_404(actor: Actor, code: str) -> Backup:
    """Give a backup of the actor's. Raises Http404 for a foreign one as for a missing one."""
    try:
        return backup_visible_to(actor, code)
    except BackupNotFound as error:
        raise Http404 from error
