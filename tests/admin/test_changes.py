"""What staff may change: through the owning package's functions, validated and audited."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.actor import actor_for
from accounts.exceptions import NotAllowed
from accounts.models import Customer, HostingPlan, Membership, User
from accounts.plan_changes import save_plan, set_plan
from accounts.user_changes import save_user
from audit.models import AuditEntry
from jobs.models import JobPolicy
from jobs.policy_changes import save_job_policy
from sites.models import Server, Site, SiteState
from tests.cast import Cast

pytestmark = pytest.mark.django_db

NO_MEMBERS = {f"memberships-{name}_FORMS": "0" for name in ("TOTAL", "INITIAL")}


def _last() -> AuditEntry:
    return AuditEntry.objects.latest("sequence")


def _add(client: Client, name: str, /, **data: Any) -> Any:
    return client.post(reverse(f"admin:{name}_add"), data, follow=True)


def _change(client: Client, name: str, key: object, /, **data: Any) -> Any:
    return client.post(reverse(f"admin:{name}_change", args=[key]), data, follow=True)


def _plan_values(plan: HostingPlan, **changed: object) -> dict[str, object]:
    names = [field.name for field in HostingPlan._meta.fields if field.name not in ("id", "code")]
    values = {name: getattr(plan, name) for name in names}
    return {name: value for name, value in {**values, **changed}.items() if value is not False}


def test_a_hosting_plan_is_changed_and_the_trail_says_what(cast: Cast, staff: Client) -> None:
    plan = cast.customer.plan
    _change(staff, "accounts_hostingplan", plan.pk, **_plan_values(plan, freshness_hours=6))
    plan.refresh_from_db()
    assert plan.freshness_hours == 6
    entry = _last()
    assert (entry.action, entry.actor, entry.target) == (
        "policy.changed",
        "staff (admin)",
        "hosting-plan:premium",
    )
    assert json.loads(entry.data) == {"freshness_hours": {"before": 24, "after": 6}}


def test_a_hosting_plan_out_of_bounds_is_refused(cast: Cast, staff: Client) -> None:
    plan, entries = cast.customer.plan, AuditEntry.objects.count()
    answer = _change(staff, "accounts_hostingplan", plan.pk, **_plan_values(plan, freshness_hours=0))
    assert answer.context["errors"]
    plan.refresh_from_db()
    assert (plan.freshness_hours, AuditEntry.objects.count()) == (24, entries)


def test_a_customer_is_added_and_given_another_plan(cast: Cast, staff: Client) -> None:
    plans = list(HostingPlan.objects.all()[:2])
    _add(staff, "accounts_customer", code="third", name="Third", plan=plans[0].pk, **NO_MEMBERS)
    customer = Customer.objects.get(code="third")
    assert (_last().action, _last().tenant) == ("record.created", "third")
    _change(staff, "accounts_customer", customer.pk, plan=plans[1].pk, **NO_MEMBERS)
    customer.refresh_from_db()
    assert customer.plan == plans[1]
    assert (_last().action, _last().target) == ("policy.changed", "customer:third")


def test_memberships_are_made_changed_and_ended_with_entries(cast: Cast, staff: Client) -> None:
    wanted = {"customer": cast.customer.pk, "user": cast.stranger.pk, "role": "VIEWER"}
    _add(staff, "accounts_membership", **wanted)
    membership = Membership.objects.get(customer=cast.customer, user=cast.stranger)
    _change(staff, "accounts_membership", membership.pk, role="OWNER")
    membership.refresh_from_db()
    assert membership.role == "OWNER"
    staff.post(reverse("admin:accounts_membership_delete", args=[membership.pk]), {"post": "yes"})
    assert not Membership.objects.filter(pk=membership.pk).exists()
    actions = (
        AuditEntry.objects.filter(target="customer:ours")
        .order_by("sequence")
        .values_list("action", flat=True)
    )
    assert list(actions) == ["record.created", "record.changed", "record.deleted"]


def test_a_site_is_added_through_the_inventory(cast: Cast, staff: Client) -> None:
    wanted = {"customer": cast.customer.pk, "server": cast.server.pk, "preset": "READ_ONLY"}
    _add(staff, "sites_site", domain=" NEW.Shop.test. ", **wanted)
    site = Site.objects.get(domain="new.shop.test")
    assert (site.state, site.preset) == (SiteState.PROVISIONING, "READ_ONLY")
    assert (_last().action, _last().target) == ("record.created", f"site:{site.pk}")


@pytest.mark.parametrize("domain", ["shop.test", "a b.test", "../etc", "localhost", "-x.test", "<img>.test"])
def test_a_site_that_cannot_be_is_refused_with_the_reason(cast: Cast, staff: Client, domain: str) -> None:
    sites = Site.objects.count()
    wanted = {"customer": cast.customer.pk, "server": cast.server.pk, "preset": "FULL"}
    page = _add(staff, "sites_site", domain=domain, **wanted).content.decode()
    assert Site.objects.count() == sites
    assert "errornote" in page or "cannot be added" in page or 'class="error"' in page
    assert "<img>" not in page


def test_a_full_quota_is_said_as_a_message(cast: Cast, staff: Client) -> None:
    HostingPlan.objects.filter(pk=cast.customer.plan_id).update(most_sites=2)
    wanted = {"customer": cast.customer.pk, "server": cast.server.pk, "preset": "FULL"}
    assert (
        "as many as its plan" in _add(staff, "sites_site", domain="one-more.test", **wanted).content.decode()
    )


def test_of_a_site_only_the_capabilities_are_changed(cast: Cast, staff: Client) -> None:
    wanted = {
        "capabilities": ["MONITOR", "BACKUP"],
        "domain": "evil.test",
        "state": "DELETED",
        "customer": "2",
    }
    _change(staff, "sites_site", cast.site.pk, **wanted)
    site = Site.objects.get(pk=cast.site.pk)
    assert site.preset == "READ_ONLY"
    assert (site.domain, site.state, site.customer) == (cast.site.domain, "ACTIVE", cast.customer)
    assert _last().action == "policy.changed"


def test_a_server_is_added_and_then_stays(cast: Cast, staff: Client) -> None:
    wanted = {"name": "web2", "transport": "UNIX", "agent_socket": "/run/a.sock", "key_id": "web2"}
    _add(staff, "sites_server", web_address="127.0.0.1:80", store="archive", **wanted)
    server = Server.objects.get(name="web2")
    assert _last().target == "server:web2"
    answer = staff.post(reverse("admin:sites_server_change", args=[server.pk]), {"name": "web3"})
    assert answer.status_code == 403


def test_a_job_policy_is_added_and_the_trail_says_what(cast: Cast, staff: Client) -> None:
    _add(staff, "jobs_jobpolicy", job_type="BACKUP", max_attempts=5, retry_delays="[60, 120]")
    policy = JobPolicy.objects.get()
    assert (policy.max_attempts, policy.retry_delays) == (5, [60, 120])
    entry = _last()
    assert (entry.action, entry.target) == ("policy.changed", "job-policy:BACKUP")
    assert json.loads(entry.data)["max_attempts"] == {"before": None, "after": 5}


def test_a_policy_takes_a_limit_for_each_server(cast: Cast, staff: Client) -> None:
    _add(staff, "jobs_jobpolicy", job_type="BACKUP", concurrency_per_server=1)
    assert JobPolicy.objects.get().concurrency_per_server == 1
    assert json.loads(_last().data)["concurrency_per_server"] == {"before": None, "after": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        {"job_type": "NO_SUCH_TYPE"},
        {"job_type": "RESTORE", "max_attempts": 2},
        {"job_type": "BACKUP", "max_attempts": 0},
        {"job_type": "BACKUP", "retry_delays": '["soon"]'},
        {"job_type": "BACKUP", "retry_delays": '{"a": 1}'},
        {"job_type": "BACKUP", "retry_delays": "[-1]"},
        {"job_type": "BACKUP", "retry_delays": "[true]"},
        {"job_type": "BACKUP", "timeout_seconds": 0},
        {"job_type": "BACKUP", "timeout_seconds": 10_000_000},
        {"job_type": "BACKUP", "concurrency": 2},
        {"job_type": "BACKUP", "concurrency_per_server": 3},
        {"job_type": "BACKUP", "priority": 9},
    ],
)
def test_a_job_policy_out_of_bounds_is_refused_at_its_field(cast: Cast, staff: Client, wrong: Any) -> None:
    answer = _add(staff, "jobs_jobpolicy", **wrong)
    assert answer.context["errors"]
    assert not JobPolicy.objects.exists()
    assert not AuditEntry.objects.filter(action="policy.changed").exists()


def test_a_person_is_added_and_changed_with_entries_and_without_the_password(
    cast: Cast, staff: Client
) -> None:
    secret = "a-Long_enough-one-7"
    _add(staff, "accounts_user", username="new", password1=secret, password2=secret, usable_password="true")
    user = User.objects.get(username="new")
    assert user.check_password(secret)
    assert (_last().action, _last().target) == ("record.created", "user:new")
    assert not any(secret in entry.data or user.password in entry.data for entry in AuditEntry.objects.all())


def test_who_may_not_operate_changes_nothing(cast: Cast, onlooker: Client) -> None:
    for name in ("accounts_hostingplan", "accounts_customer", "accounts_membership", "accounts_user"):
        assert onlooker.post(reverse(f"admin:{name}_add"), {}).status_code == 403, name
    for name in ("sites_site", "sites_server", "jobs_jobpolicy"):
        assert onlooker.post(reverse(f"admin:{name}_add"), {}).status_code == 403, name
    address = reverse("admin:accounts_user_change", args=[cast.onlooker.pk])
    assert onlooker.post(address, {"is_superuser": "on"}).status_code == 403
    membership = Membership.objects.first()
    assert membership is not None
    address = reverse("admin:accounts_membership_delete", args=[membership.pk])
    assert onlooker.post(address, {"post": "yes"}).status_code == 403


def test_the_functions_themselves_refuse_and_record(cast: Cast) -> None:
    actor = actor_for(cast.onlooker, "admin")
    policy = JobPolicy(job_type="BACKUP", max_attempts=2)
    for change in (
        lambda: save_plan(actor, cast.customer.plan),
        lambda: set_plan(actor, cast.customer, cast.customer.plan),
        lambda: save_job_policy(actor, policy),
        lambda: save_user(actor, cast.owner, []),
    ):
        with pytest.raises(NotAllowed):
            change()
        assert (_last().action, _last().actor) == ("access.denied", "onlooker (admin)")
    assert AuditEntry.objects.filter(action="access.denied").count() == 4
    assert not JobPolicy.objects.exists()


def test_a_weak_password_is_refused(cast: Cast, staff: Client) -> None:
    _add(
        staff, "accounts_user", username="weak", password1="12345", password2="12345", usable_password="true"
    )
    assert not User.objects.filter(username="weak").exists()
