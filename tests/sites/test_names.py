"""Domain names: every spelling in one form, every vector refused with a sentence that helps."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sites.names import LONGEST_LABEL, LONGEST_NAME, DomainName, InvalidDomain, normalise_domain
from tests.vectors import DOMAINS_NORMALISED, DOMAINS_REFUSED, HOSTILE_TEXTS, TEN_MEGABYTES


@pytest.mark.parametrize("text", DOMAINS_REFUSED.values(), ids=DOMAINS_REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(InvalidDomain):
        normalise_domain(text)


@pytest.mark.parametrize(("text", "form"), DOMAINS_NORMALISED.items(), ids=DOMAINS_NORMALISED)
def test_normalised_to_one_form(text: str, form: str) -> None:
    assert normalise_domain(text).ascii == form


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("http://a.com", "without http://"),
        ("a.com:80", "contains a port"),
        ("a.com/", "contains a path"),
        ("me@a.com", "mail address"),
        ("a_b.com", "underscore"),
        ("*.a.com", "wildcard"),
        ("test..com", "two dots together"),
        ("192.0.2.1", "IP address"),
        ("a\u200db.com", "U+200D"),
        ("\u0430pple.com", "mixes the scripts Cyrillic and Latin"),
        ("co.uk", "public suffix"),
        ("shop", "has no dot"),
        ("shop.example", "reserved"),
        ("-a.com", "begins or ends with a hyphen"),
        ("a" * 64 + ".com", "63 characters at most"),
        ("a." * 125 + "comm", "the most is 253"),
        ("www.a.com", "Give 'a.com'"),
    ],
)
def test_refusal_names_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(InvalidDomain) as refused:
        normalise_domain(text)
    assert says in str(refused.value)


@pytest.mark.parametrize("text", [*HOSTILE_TEXTS.values(), TEN_MEGABYTES])
def test_refusal_of_hostile_text_is_one_short_printable_line(text: str) -> None:
    with pytest.raises(InvalidDomain) as refused:
        normalise_domain(text)
    assert len(str(refused.value)) < 400
    assert str(refused.value).replace("\ud800", "").isprintable()


def test_longest_label_and_name_are_accepted() -> None:
    label = "a" * LONGEST_LABEL
    assert normalise_domain(f"{label}.com").ascii == f"{label}.com"
    longest = ".".join([label, label, label, "a" * (LONGEST_NAME - 3 * (LONGEST_LABEL + 1) - 4), "com"])
    assert len(normalise_domain(longest).ascii) == LONGEST_NAME


def test_gives_the_form_to_show_as_well() -> None:
    assert normalise_domain("XN--MNCHEN-3YA.de") == DomainName("xn--mnchen-3ya.de", "münchen.de")


@pytest.mark.parametrize("text", ["panel.a.com", "PANEL.a.com.", "x.panel.a.com", "pänel.b.com"])
def test_panels_own_hosts_and_names_below_them_are_refused(text: str) -> None:
    hosts = {"panel.a.com", ".xn--pnel-loa.b.com"}
    with pytest.raises(InvalidDomain, match="panel's own name"):
        normalise_domain(text, own_hosts=hosts)


@pytest.mark.parametrize("text", ["a.com", "mypanel.a.com", "panel.a.com.br"])
def test_neighbours_of_the_panels_hosts_are_accepted(text: str) -> None:
    assert normalise_domain(text, own_hosts={"panel.a.com", ""}).ascii == text


def test_names_under_test_only_where_allowed() -> None:
    with pytest.raises(InvalidDomain, match="reserved"):
        normalise_domain("shop.test")
    assert normalise_domain("shop.test", allow_test=True).ascii == "shop.test"
    with pytest.raises(InvalidDomain, match="no dot"):
        normalise_domain("test", allow_test=True)


def test_reserved_names_can_be_chosen() -> None:
    with pytest.raises(InvalidDomain, match="reserved"):
        normalise_domain("a.com", reserved={"com"})


def test_www_is_accepted_for_an_alias() -> None:
    assert normalise_domain("www.a.com", allow_www=True).ascii == "www.a.com"


@pytest.mark.parametrize("text", ["www.com", "www.co.uk"])
def test_www_that_is_the_registered_name_itself_is_accepted(text: str) -> None:
    assert normalise_domain(text).ascii == text


@given(st.text(max_size=80) | st.from_regex(r"[\w.\-]{1,30}\.(com|рф|jp)", fullmatch=True))
@example("faß.com")
@example("١٢.com")
@settings(max_examples=300, deadline=None)
def test_whatever_is_accepted_is_a_host_name_and_stays_the_same(text: str) -> None:
    try:
        name = normalise_domain(text)
    except InvalidDomain:
        return
    assert len(name.ascii) <= LONGEST_NAME
    assert all(0 < len(label) <= LONGEST_LABEL for label in name.ascii.split("."))
    assert set(name.ascii) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert normalise_domain(name.ascii) == name
    assert normalise_domain(name.unicode) == name
