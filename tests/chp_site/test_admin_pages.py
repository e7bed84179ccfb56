"""Which tables have a page in the admin: a new one fails here until somebody has thought about it."""

from django.contrib import admin

EXPECTED = {
    "accounts.Customer",
    "accounts.HostingPlan",
    "accounts.Membership",
    "accounts.User",
    "audit.AuditEntry",
    "audit.AuditHead",
    "backups.Backup",
    "jobs.Job",
    "jobs.JobEvent",
    "jobs.JobPolicy",
    "jobs.Pause",
    "jobs.Plan",
    "jobs.Worker",
    "provisioning.Resource",
    "sites.Server",
    "sites.Site",
}


def test_the_admin_has_these_pages_and_no_others() -> None:
    assert {model._meta.label for model in admin.site._registry} == EXPECTED
