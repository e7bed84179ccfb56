"""The customers' pages: one act, one address."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from panel.login import PanelLogin
from panel.views import backups, jobs, sites

app_name = "panel"
urlpatterns = [
    path("login/", PanelLogin.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("", sites.home, name="home"),
    path("sites/<int:site_id>/", sites.site, name="site"),
    path("sites/<int:site_id>/back-up/", sites.back_up, name="back_up"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/<str:code>/", jobs.job, name="job"),
    path("jobs/<str:code>/progress/", jobs.job_progress, name="job_progress"),
    path("jobs/<str:code>/cancel/", jobs.cancel, name="cancel"),
    path("jobs/<str:code>/retry/", jobs.retry, name="retry_job"),
    path("backups/", backups.backups, name="backups"),
    path("backups/<str:code>/restore/", backups.restore, name="restore"),
    path("backups/<str:code>/verify/", backups.verify, name="verify"),
]
