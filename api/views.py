"""The REST face: lists and details of what the caller may see, and the verbs that make jobs."""

from typing import Any

from django.contrib.auth import authenticate
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from knox.models import get_token_model
from rest_framework import generics, permissions
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import ScopedRateThrottle
from rest_framework.views import APIView

from accounts import tokens
from api import requests
from api.authentication import CurrentTokenAuthentication
from api.filters import BackupFilter, JobFilter, SiteFilter
from api.problems import LoginRefused
from api.requests import actor_of
from api.serializers import (
    BackUpSerializer,
    BackupSerializer,
    ChainedJobSerializer,
    JobEventSerializer,
    JobSerializer,
    LoginSerializer,
    NewJobSerializer,
    ProblemSerializer,
    ReasonSerializer,
    SiteSerializer,
    TokenSerializer,
    VerifySerializer,
    WishSerializer,
)
from backups.models import Backup
from backups.queries import backup_visible_to, backups_visible_to
from jobs import events, pipeline
from jobs.models import Job, JobEvent, job_id_of
from jobs.queries import job_visible_to, jobs_visible_to
from sites.models import Site
from sites.queries import site_visible_to, sites_visible_to

PROBLEMS = {
    (status, "application/problem+json"): ProblemSerializer for status in (400, 401, 403, 404, 409, 413)
}
KEY = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER, description="The same key and body give the same job."
)
MAKES_JOB: dict[str, Any] = {"parameters": [KEY], "responses": {202: JobSerializer, **PROBLEMS}}


class Login(APIView):
    """Exchange name and password for a token."""

    authentication_classes = ()
    permission_classes = (permissions.AllowAny,)
    throttle_classes = (ScopedRateThrottle,)
    throttle_scope = "login"

    @extend_schema(request=LoginSerializer, responses={200: TokenSerializer, **PROBLEMS}, auth=[])
    def post(self, request: Request) -> Response:
        """Give a token that expires; it is stored only as a digest."""
        serializer = LoginSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        user = authenticate(request._request, **serializer.validated_data)
        if user is None:
            raise LoginRefused
        token, expiry = tokens.issue(user)
        return Response(TokenSerializer({"token": token, "expires_at": expiry}).data)


class Logout(APIView):
    """End the token that is used."""

    authentication_classes = (CurrentTokenAuthentication,)

    @extend_schema(request=None, responses={204: None, **PROBLEMS})
    def post(self, request: Request) -> Response:
        """Delete the token of this request."""
        if isinstance(request.auth, get_token_model()):
            tokens.revoke(request.user, request.auth)
        return Response(status=204)


class SiteList(generics.ListAPIView[Site]):
    """The sites that the caller may see."""

    serializer_class = SiteSerializer
    filterset_class = SiteFilter
    queryset = Site.objects.none()

    def get_queryset(self) -> QuerySet[Site]:
        """Scope to the caller."""
        return sites_visible_to(actor_of(self.request))


class SiteDetail(APIView):
    """One site."""

    @extend_schema(responses={200: SiteSerializer, **PROBLEMS})
    def get(self, request: Request, site_id: int) -> Response:
        """Give the site."""
        return Response(SiteSerializer(site_visible_to(actor_of(request), site_id)).data)


class BackUp(APIView):
    """Back a site up."""

    @extend_schema(request=BackUpSerializer, **MAKES_JOB)
    def post(self, request: Request, site_id: int) -> Response:
        """Queue a BACKUP job and answer 202 with it."""
        wish = requests.body_of(request, BackUpSerializer, "BACKUP", site_id)
        payload = {"schedule_type": wish["schedule_type"]}
        return requests.submit(request, "BACKUP", site_id, payload, wish)


class JobList(generics.ListAPIView[Job]):
    """The jobs that the caller may see."""

    serializer_class = JobSerializer
    filterset_class = JobFilter
    queryset = Job.objects.none()

    def get_queryset(self) -> QuerySet[Job]:
        """Scope to the caller."""
        return jobs_visible_to(actor_of(self.request))

    def paginate_queryset(self, queryset: Any) -> Any:
        """Work out at once what is told of the page's jobs besides their rows."""
        page = super().paginate_queryset(queryset)
        self.told = requests.context_of(self.request, page or [])
        return page

    def get_serializer_context(self) -> dict[str, Any]:
        """Hand it to the serializer."""
        return {**super().get_serializer_context(), **getattr(self, "told", {})}

    @extend_schema(request=NewJobSerializer, **MAKES_JOB)
    def post(self, request: Request) -> Response:
        """Queue a job of any installed type and answer 202 with it."""
        wish = requests.body_of(request, NewJobSerializer, "", 0)
        return requests.submit(request, wish["operation"], wish["site"], wish["payload"], wish)


class JobChains(APIView):
    """Several jobs that wait for each other."""

    @extend_schema(
        request=ChainedJobSerializer(many=True),
        parameters=[KEY],
        responses={201: JobSerializer(many=True), **PROBLEMS},
    )
    def post(self, request: Request) -> Response:
        """Queue all jobs of a chain, or none, and answer 201 with them in the order of the requests."""
        return requests.submit_chain(request)


class JobDetail(APIView):
    """One job."""

    @extend_schema(responses={200: JobSerializer, **PROBLEMS})
    def get(self, request: Request, code: str) -> Response:
        """Give the job."""
        job = job_visible_to(actor_of(request), job_id_of(code))
        return Response(JobSerializer(job, context=requests.context_of(request, [job])).data)


class JobEvents(generics.ListAPIView[JobEvent]):
    """The history of one job, newest first."""

    serializer_class = JobEventSerializer
    queryset = JobEvent.objects.none()

    def get_queryset(self) -> QuerySet[JobEvent]:
        """Scope to a job that the caller may see."""
        if getattr(self, "swagger_fake_view", False):
            return self.queryset
        return events.history(job_visible_to(actor_of(self.request), job_id_of(self.kwargs["code"])))


class CancelJob(APIView):
    """Call a job off."""

    @extend_schema(request=ReasonSerializer, responses={202: JobSerializer, **PROBLEMS})
    def post(self, request: Request, code: str) -> Response:
        """Cancel a queued job, or ask a running one to stop at its next checkpoint."""
        reason = requests.reason_of(request)
        job = job_visible_to(actor_of(request), job_id_of(code))
        return requests.answer_with(request, pipeline.cancel(actor_of(request), job.pk, reason))


class RetryJob(APIView):
    """Queue a failed job again."""

    @extend_schema(request=ReasonSerializer, responses={202: JobSerializer, **PROBLEMS})
    def post(self, request: Request, code: str) -> Response:
        """Queue a FAILED job again with fresh attempts, and with it what was called off with it."""
        reason = requests.reason_of(request)
        job = job_visible_to(actor_of(request), job_id_of(code))
        return requests.answer_with(request, pipeline.retry(actor_of(request), job.pk, reason))


class BackupList(generics.ListAPIView[Backup]):
    """The backups that the caller may see."""

    serializer_class = BackupSerializer
    filterset_class = BackupFilter
    queryset = Backup.objects.none()

    def get_queryset(self) -> QuerySet[Backup]:
        """Scope to the caller."""
        return backups_visible_to(actor_of(self.request))


class BackupDetail(APIView):
    """One backup."""

    @extend_schema(responses={200: BackupSerializer, **PROBLEMS})
    def get(self, request: Request, code: str) -> Response:
        """Give the backup."""
        return Response(BackupSerializer(backup_visible_to(actor_of(request), code)).data)


class Restore(APIView):
    """Restore a site from a backup."""

    @extend_schema(request=WishSerializer, **MAKES_JOB)
    def post(self, request: Request, code: str) -> Response:
        """Make a plan, approve it where the caller's rights allow that, queue RESTORE and answer 202."""
        backup = backup_visible_to(actor_of(request), code)
        wish = requests.body_of(request, WishSerializer, "RESTORE", backup.site_id)
        return requests.submit(request, "RESTORE", backup.site_id, {"backup": backup.code}, wish)


class Verify(APIView):
    """Read a backup back."""

    @extend_schema(request=VerifySerializer, **MAKES_JOB)
    def post(self, request: Request, code: str) -> Response:
        """Queue a VERIFY job and answer 202 with it."""
        backup = backup_visible_to(actor_of(request), code)
        wish = requests.body_of(request, VerifySerializer, "VERIFY", backup.site_id)
        payload = {"backup": backup.code, "deep": wish["deep"]}
        return requests.submit(request, "VERIFY", backup.site_id, payload, wish)
