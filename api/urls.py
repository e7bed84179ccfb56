"""Addresses of the REST face, version 1."""

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.urls import path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from api import views

# The documents' own styles are written into the page; scripts come from files as everywhere.
documents = csp_update({"style-src": [SELF, UNSAFE_INLINE], "img-src": [SELF, "data:"]})

app_name = "api"
urlpatterns = [
    path("auth/login/", views.Login.as_view(), name="login"),
    path("auth/logout/", views.Logout.as_view(), name="logout"),
    path("sites/", views.SiteList.as_view(), name="sites"),
    path("sites/<int:site_id>/", views.SiteDetail.as_view(), name="site"),
    path("sites/<int:site_id>/backups/", views.BackUp.as_view(), name="back_up"),
    path("jobs/", views.JobList.as_view(), name="jobs"),
    path("jobs/chains/", views.JobChains.as_view(), name="job_chains"),
    path("jobs/<str:code>/", views.JobDetail.as_view(), name="job"),
    path("jobs/<str:code>/events/", views.JobEvents.as_view(), name="job_events"),
    path("jobs/<str:code>/cancel/", views.CancelJob.as_view(), name="cancel"),
    path("jobs/<str:code>/retry/", views.RetryJob.as_view(), name="retry_job"),
    path("backups/", views.BackupList.as_view(), name="backups"),
    path("backups/<str:code>/", views.BackupDetail.as_view(), name="backup"),
    path("backups/<str:code>/restore/", views.Restore.as_view(), name="restore"),
    path("backups/<str:code>/verify/", views.Verify.as_view(), name="verify"),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", documents(SpectacularSwaggerSplitView.as_view(url_name="api:schema")), name="docs"),
]
