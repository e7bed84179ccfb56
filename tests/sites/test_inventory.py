"""Sites are added through one function: domain, quota, capabilities and the right to do it."""

import pytest
from pytest_django import Settings

from accounts.actor import actor_for, operator
from accounts.exceptions import NotAllowed
from accounts.models import HostingPlan
from audit.actions import Action
from audit.models import AuditEntry
from sites.capabilities import FULL, READ_ONLY, normalised, preset_of
from sites.exceptions import SiteNotFound, SiteRefused
from sites.inventory import add_site, set_capabilities
from sites.models import Site, SiteState
from sites.queries import site_named, site_visible_to
from tests.cast import Cast

pytestmark = pytest.mark.django_db
ROOT = operator("root")


def _add(cast: Cast, domain: str, preset: str = "FULL") -> Site:
    return add_site(ROOT, cast.customer, cast.server, domain, preset)


def test_a_site_is_stored_in_one_form_and_shown_in_its_own(cast: Cast) -> None:
    site = _add(cast, "MÜNCHEN.test.")
    assert (site.domain, str(site), site.state) == ("xn--mnchen-3ya.test", "münchen.test", "PROVISIONING")
    assert AuditEntry.objects.latest("sequence").action == Action.RECORD_CREATED


@pytest.mark.parametrize("spelling", ["shop.test", "SHOP.TEST", "shop.test."])
def test_a_domain_is_taken_once_in_whatever_spelling(cast: Cast, spelling: str) -> None:
    with pytest.raises(SiteRefused, match="already a site"):
        _add(cast, spelling)


def test_the_domain_of_a_deleted_site_can_be_used_again(cast: Cast) -> None:
    Site.objects.filter(pk=cast.site.pk).update(state=SiteState.DELETED)
    assert _add(cast, cast.site.domain).pk != cast.site.pk


def test_the_panels_own_name_is_refused(cast: Cast, settings: Settings) -> None:
    settings.CHP_OWN_HOSTS = frozenset({"panel.example.com"})
    with pytest.raises(SiteRefused):
        _add(cast, "panel.example.com")


def test_test_domains_are_refused_where_the_setting_says_so(cast: Cast, settings: Settings) -> None:
    settings.CHP_ALLOW_TEST_DOMAINS = False
    with pytest.raises(SiteRefused):
        _add(cast, "another.test")


def test_the_plans_quota_holds(cast: Cast) -> None:
    HostingPlan.objects.filter(pk=cast.customer.plan_id).update(most_sites=2)
    with pytest.raises(SiteRefused, match="as many as its plan"):
        _add(cast, "third.test")


def test_an_unknown_preset_is_named(cast: Cast) -> None:
    with pytest.raises(SiteRefused, match="'SOME' is not a preset"):
        _add(cast, "some.test", "SOME")


def test_a_customers_user_adds_nothing(cast: Cast) -> None:
    with pytest.raises(NotAllowed, match="may not add sites"):
        add_site(actor_for(cast.owner, "api"), cast.customer, cast.server, "mine.test")
    assert AuditEntry.objects.latest("sequence").action == Action.ACCESS_DENIED


def test_read_only_means_monitored_and_backed_up() -> None:
    """DESIGN section 2: not a synonym of "no backup"."""
    assert set(READ_ONLY) == {"MONITOR", "BACKUP"}
    assert preset_of(["BACKUP", "MONITOR"]) == "READ_ONLY"
    assert preset_of([capability.value for capability in FULL]) == "FULL"
    assert preset_of(["MONITOR"]) == "CUSTOM"


def test_capabilities_are_known_and_stand_once() -> None:
    assert normalised(["RESTORE", "MONITOR", "RESTORE"]) == ["MONITOR", "RESTORE"]
    with pytest.raises(ValueError, match="'FLY' is not a capability"):
        normalised(["FLY"])


def test_a_change_of_capabilities_is_recorded_with_before_and_after(cast: Cast) -> None:
    set_capabilities(ROOT, cast.site, ["BACKUP"])
    entry = AuditEntry.objects.latest("sequence")
    assert entry.action == Action.POLICY_CHANGED
    assert '"after":["BACKUP"]' in entry.data
    assert Site.objects.get(pk=cast.site.pk).capabilities == ["BACKUP"]


def test_a_foreign_site_is_as_good_as_missing(cast: Cast) -> None:
    owner = actor_for(cast.owner, "api")
    for site_id in (cast.foreign_site.pk, 0, -1, 2**70):
        with pytest.raises(SiteNotFound):
            site_visible_to(owner, site_id)
    for name in (cast.foreign_site.domain, "no.test", "", "a\0b", "x" * 10_000):
        with pytest.raises(SiteNotFound):
            site_named(owner, name)
