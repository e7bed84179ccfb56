from typing import Any

import pytest

from agent.declarations import schema
from agent.declarations.backup import CreateBackup, DatabaseRef, VerifyBackup
from agent.declarations.hosting import CreateSite
from agent.declarations.schema import Lock
from agent.declarations.table import DECLARATIONS
from agent.exceptions import InvalidArguments

SITE: dict[str, Any] = {"site_id": 7, "domain": "example.com", "aliases": ["www.example.com"]}
BACKUP: dict[str, Any] = {
    "site_id": 7,
    "domain": "example.com",
    "backup": "BK-20260813-170001",
    "store": "archive",
    "databases": [{"engine": "mariadb", "name": "shop_1"}],
}


def test_plain_data_becomes_the_declared_value_and_back() -> None:
    declared = schema.parse(CreateBackup, BACKUP)
    assert declared.databases == (DatabaseRef("mariadb", "shop_1"),)
    assert schema.dump(declared) == BACKUP


def test_a_default_stands_for_a_key_that_is_left_out() -> None:
    given = {"site_id": 7, "backup": "BK-20260813-170001-2", "store": "archive", "manifest_sha256": ""}
    assert schema.parse(VerifyBackup, given).deep is False
    assert schema.parse(VerifyBackup, {**given, "deep": True}).deep is True


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"command": "ls"}, "'command': unknown key"),
        ({"site_id": True}, "site_id: give a whole number"),
        ({"site_id": "7"}, "site_id: give a whole number"),
        ({"site_id": 7.0}, "site_id: give a whole number"),
        ({"site_id": 0}, "site_id: give a number from 1"),
        ({"site_id": 2**31}, "site_id: give a number from 1"),
        ({"domain": None}, "domain: give a text"),
        ({"domain": "a\0.com"}, "domain: has a NUL"),
        ({"domain": "\ud800.com"}, "domain: has half a character"),
        ({"domain": "a" * 254}, "domain: too long"),
        ({"aliases": "www.example.com"}, "aliases: give a list"),
        ({"aliases": ["ok.example.com", "../etc"]}, r"aliases\[1\]: '../etc' does not fit"),
        ({"aliases": ["a.example.com"] * 257}, "aliases: too long"),
    ],
)
def test_wrong_arguments_are_refused_by_name(change: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidArguments, match=named):
        schema.parse(CreateSite, {**SITE, **change})


def test_a_missing_key_is_refused_by_name() -> None:
    with pytest.raises(InvalidArguments, match="domain: missing"):
        schema.parse(CreateSite, {"site_id": 7, "aliases": []})


@pytest.mark.parametrize(
    "domain",
    [
        "example",
        "Example.com",
        "example.com.",
        "-a.com",
        "a-.com",
        "a..com",
        "a.com\n",
        "ex ample.com",
        "bücher.de",
        "127.0.0.1",
        "a_b.com",
        "a/b.com",
        f"{'a' * 64}.com",
        "",
    ],
)
def test_what_is_no_ascii_domain_is_refused(domain: str) -> None:
    with pytest.raises(InvalidArguments, match="domain"):
        schema.parse(CreateSite, {**SITE, "domain": domain})


@pytest.mark.parametrize("domain", ["a.b", "xn--bcher-kva.example", f"{'a' * 63}.com", "1.example.com"])
def test_ascii_domains_are_accepted(domain: str) -> None:
    assert schema.parse(CreateSite, {**SITE, "domain": domain}).domain == domain


@pytest.mark.parametrize(
    "backup", ["BK-1", "BK-20260813-170001-0", "../BK-20260813-170001", "BK-20260813-170001\n"]
)
def test_what_is_no_backup_code_is_refused(backup: str) -> None:
    with pytest.raises(InvalidArguments, match="backup"):
        schema.parse(CreateBackup, {**BACKUP, "backup": backup})


@pytest.mark.parametrize("name", ["--help", "a b", "a;b", "a`b", "a/b", "", ".hidden", "x" * 65])
def test_a_database_name_cannot_become_an_option_or_a_path(name: str) -> None:
    with pytest.raises(InvalidArguments, match=r"databases\[0\].name"):
        schema.parse(CreateBackup, {**BACKUP, "databases": [{"engine": "mariadb", "name": name}]})


@pytest.mark.parametrize("given", [None, [], "text", {"engine": "mariadb"}])
def test_a_nested_value_is_judged_as_strictly(given: object) -> None:
    with pytest.raises(InvalidArguments, match=r"databases\[0\]"):
        schema.parse(CreateBackup, {**BACKUP, "databases": [given]})


def test_locks_cover_what_needs_less() -> None:
    order = [Lock.NONE, Lock.SHARED, Lock.EXCLUSIVE, Lock.MUTATING]
    covered = [[held.covers(needed) for needed in order] for held in order]
    assert covered == [[column <= row for column in range(4)] for row in range(4)]


def test_every_action_is_described_under_its_own_name() -> None:
    for name, declaration in DECLARATIONS.items():
        assert schema.describe(declaration)["action"] == name


def test_a_description_names_arguments_and_guarantees() -> None:
    described = schema.describe(CreateBackup)
    assert described["arguments"]["databases"] == "list of DatabaseRef"
    assert (described["lock"], described["safe_to_kill"]) == ("exclusive", True)
