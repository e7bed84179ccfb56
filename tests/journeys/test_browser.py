"""A person in a real browser: log in, back up, watch it happen, restore."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from jobs.models import Job
from jobs.states import Status
from sites.models import Site
from tests.cast import PASSWORD, Cast
from tests.journeys.test_road import site, start_real_worker
from tests.services.availability import missing

__all__ = ["site", "start_real_worker"]

pytestmark = pytest.mark.django_db(transaction=True)
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """Start Debian's Chromium, headless."""
    if not os.access(CHROMIUM, os.X_OK):
        missing("chromium", "Debian's package chromium is not installed")
    # Playwright keeps an event loop in this thread; the ORM is used outside of it all the same.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, live_server: Any, cast: Cast) -> Iterator[Page]:
    """Give the owner's page after the login; the browser must have had nothing to complain about."""
    opened = browser.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(live_server.url)
    opened.fill("input[name=username]", cast.owner.username)
    opened.fill("input[name=password]", PASSWORD)
    opened.click("button[type=submit]")
    yield opened
    assert complaints == []


def test_the_api_s_documents_can_be_read(page: Page, live_server: Any) -> None:
    page.goto(f"{live_server.url}/api/v1/docs/")
    expect(page.get_by_text("/api/v1/backups/{code}/restore/")).to_be_visible(timeout=20_000)


def test_back_up_watch_and_restore(site: Site, page: Page) -> None:
    page.click(f"text={site.domain}")
    page.click("text=Back up now")
    # The page follows the job by itself: nothing is clicked and nothing reloaded until it has ended.
    expect(page.get_by_text("Done and verified.")).to_be_visible(timeout=60_000)
    page.get_by_role("link", name=site.domain).first.click()
    page.get_by_role("link", name="Restore").or_(page.get_by_role("button", name="Restore")).first.click()
    expect(page.get_by_text("PRE_RESTORE")).to_be_visible()
    page.get_by_role("button", name="Restore").first.click()
    expect(page.get_by_text("Done and verified.")).to_be_visible(timeout=60_000)
    assert list(Job.objects.order_by("pk").values_list("job_type", "status")) == [
        ("PROVISION", Status.SUCCESS),
        ("BACKUP", Status.SUCCESS),
        ("RESTORE", Status.SUCCESS),
    ]
