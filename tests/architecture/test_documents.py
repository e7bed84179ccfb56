"""The documents hang together, and the worked example of CONTRIBUTING.md is true to the code."""

import re
from pathlib import Path

import pytest

from jobs.exceptions import NotReady
from jobs.operation import Operation
from sites.models import Site, SiteState
from tests.architecture.source import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(
    r"`((?:accounts|agent|api|audit|backups|chp_site|deploy|docs|jobs|panel|provisioning|sites|tests)/[\w/.-]*)`"
)


def anchors(document: Path) -> set[str]:
    """Give the names by which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in LINK.findall(document.read_text("utf-8")):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        page = (document.parent / target).resolve() if target else document
        assert page.exists(), link
        assert not anchor or anchor in anchors(page), link


@pytest.mark.parametrize(
    # The recipes of CONTRIBUTING.md name files that are to be made.
    "document",
    [document for document in DOCUMENTS if document.name != "CONTRIBUTING.md"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_file_that_is_named_exists(document: Path) -> None:
    named = PATH.findall(document.read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text("utf-8"))
    }
    assert {page for page in (ROOT / "docs").rglob("*.md") if page != index} <= linked


@pytest.fixture
def example() -> Operation:
    """Give the operation of the recipe, made of the code on the page."""
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), flags=re.DOTALL
    )
    names: dict[str, object] = {"__name__": "example"}
    exec(code, names)  # noqa: S102 - our own page
    made = names["RefreshWeb"]
    assert isinstance(made, type)
    assert issubclass(made, Operation)
    return made()


def test_the_example_says_what_it_would_do(example: Operation) -> None:
    site = Site(domain="shop.test", display_domain="shop.test", state=SiteState.ACTIVE)
    intention = example.intend(site, example.payload())
    assert [step.name for step in intention.steps] == ["web"]


def test_the_example_refuses_what_is_not_ready(example: Operation) -> None:
    with pytest.raises(NotReady, match="only an active site"):
        example.intend(Site(domain="shop.test", state=SiteState.FAILED), example.payload())
