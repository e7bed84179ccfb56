"""Error pages: calm, and silent about what was sent."""

import pytest
from django.template.loader import render_to_string
from django.test import Client

from panel.templatetags.panel_display import TONE_OF
from tests.cast import Cast
from tests.panel.samples import visitor

pytestmark = pytest.mark.django_db


def test_a_missing_page_says_so_and_repeats_nothing(cast: Cast) -> None:
    for client in (Client(), visitor(cast.owner)):
        answer = client.get("/%3Cscript%3Ealert(1)%3C/script%3E/?q=<script>")
        assert answer.status_code == 404
        page = answer.content.decode()
        assert "There is nothing here, or it is not yours to see." in page
        assert "alert" not in page


def test_a_form_without_its_token_has_a_page_of_ours(cast: Cast) -> None:
    answer = visitor(cast.owner, enforce_csrf_checks=True).post("/logout/")
    assert answer.status_code == 403
    assert "This form is too old" in answer.content.decode()


@pytest.mark.parametrize("template", ["400.html", "500.html"])
def test_pages_that_are_shown_without_a_request_can_be(template: str) -> None:
    assert "<h1>" in render_to_string(template)


def test_every_colour_of_a_badge_is_one_that_the_stylesheet_has() -> None:
    assert set(TONE_OF.values()) == {"good", "busy", "waiting", "bad"}
