"""The builtin web server: static files of the site that was asked for, and nothing else."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.actions.ground import DOMAIN, Ground, policy_in, remove
from tests.agent.actions.web import ROOT, Response, answers, ask, web_server


@pytest.fixture(scope="module")
def site() -> Iterator[Ground]:
    """Give a server with two sites that are served, for all tests here: they only add files."""
    folder = Path(tempfile.mkdtemp(prefix="chp-web-"))
    folder.chmod(0o755)
    with web_server(folder / "web") as (address, _):
        ground = Ground(policy_in(folder, address))
        ground.create_site(1, DOMAIN)
        ground.create_site(2, "other.test")
        yield ground
    remove(folder)


def get(site: Ground, target: str, host: str = DOMAIN, method: str = "GET") -> Response:
    return ask(site.policy.web_address, target, host, method)


def put(site: Ground, name: str, content: str = "content") -> Path:
    path = site.home() / "htdocs" / name
    path.parent.mkdir(exist_ok=True)
    path.parent.chmod(0o755)
    path.write_text(content)
    path.chmod(0o644)
    return path


def test_a_file_is_sent_with_its_kind_and_length(site: Ground) -> None:
    put(site, "style.css", "body {}")
    answer = get(site, "/style.css?version=2")
    assert (answer.status, answer.body) == (200, b"body {}")
    assert (answer.headers["content-type"], answer.headers["content-length"]) == ("text/css", "7")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_head_is_get_without_the_body(site: Ground) -> None:
    got, told = get(site, "/"), get(site, "/", method="HEAD")
    assert (told.status, told.body) == (200, b"")
    assert told.headers["content-length"] == str(len(got.body))


@pytest.mark.parametrize("host", ["unknown.test", "", "127.0.0.1", "road.test.evil.test", "../1"])
def test_an_unknown_host_gets_nothing(site: Ground, host: str) -> None:
    assert get(site, "/", host).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "TRACE", "PROPFIND"])
def test_other_methods_are_refused(site: Ground, method: str) -> None:
    assert get(site, "/", method=method).status == 501


@pytest.mark.parametrize(
    "name",
    ["config.php", "CONFIG.PHP", "shop.sqlite", "shop.sqlite3", "shop.sqlite3-wal", "shop.db-journal",
     "app.db", "prod.env",
     "dump.sql", "config.php.bak", "config.php.old", "index.html~", "site.ini", "error.log"],
)  # fmt: skip
def test_source_code_and_data_are_refused(site: Ground, name: str) -> None:
    put(site, name, "password")
    answers = [
        get(site, f"/{name}"),
        get(site, f"/%{ord(name[0]):02x}{name[1:]}"),
        get(site, f"/{name}?x=.html"),
    ]
    assert [answer.status for answer in answers] == [403, 403, 403]
    assert not any(b"password" in answer.body for answer in answers)


@pytest.mark.parametrize("name", [".env", ".htaccess", ".git/config", ".well-known/../.env"])
def test_hidden_files_are_not_there(site: Ground, name: str) -> None:
    put(site, ".env", "password")
    put(site, ".git/config", "password")
    assert get(site, f"/{name}").status == 404


@pytest.mark.parametrize(
    "target",
    ["/../data/secret.txt", "/%2e%2e/data/secret.txt", "/..%2fdata/secret.txt", "/%252e%252e/data/secret.txt",
     "/x/../../data/secret.txt", "//../data/secret.txt", "/..\\data\\secret.txt", "/htdocs/%00/secret.txt"],
)  # fmt: skip
def test_no_way_leads_out_of_the_document_root(site: Ground, target: str) -> None:
    secret = site.home() / "data" / "secret.txt"
    secret.write_text("secret")
    secret.chmod(0o644)
    secret.parent.chmod(0o755)
    assert get(site, target).status == 404


@pytest.mark.parametrize("target", ["road.test/", "http://road.test/", "*", "/" + "a" * 5000])
def test_what_is_no_path_is_refused(site: Ground, target: str) -> None:
    assert get(site, target).status == 400


def test_links_are_not_followed(site: Ground) -> None:
    root = site.home() / "htdocs"
    page = put(site, "page.html", "secret")
    (root / "file-link.html").symlink_to(page)
    (root / "passwd.txt").symlink_to("/etc/passwd")
    (root / "folder-link").symlink_to(site.home(2) / "htdocs")
    targets = ("/file-link.html", "/passwd.txt", "/folder-link/", "/folder-link/index.html")
    assert [get(site, target).status for target in targets] == [404, 404, 404, 404]


def test_a_document_root_that_became_a_link_is_not_followed(site: Ground) -> None:
    site.create_site(3, "third.test")
    os.rename(site.home(3) / "htdocs", site.home(3) / "moved")
    (site.home(3) / "htdocs").symlink_to(site.home(2) / "htdocs")
    assert get(site, "/", "third.test").status == 404


def test_what_is_not_public_cannot_be_read(site: Ground) -> None:
    put(site, "private.html").chmod(0o600)
    put(site, "closed/page.html").parent.chmod(0o700)
    assert [get(site, target).status for target in ("/private.html", "/closed/page.html")] == [403, 403]


def test_a_fifo_is_not_opened(site: Ground) -> None:
    os.mkfifo(site.home() / "htdocs" / "fifo", 0o644)
    assert get(site, "/fifo").status == 404


@pytest.mark.parametrize(
    ("target", "where"),
    [("/folder", "/folder/"), ("//evil.test", "/evil.test/"), ("/folder?a=b", "/folder/")],
)
def test_the_redirect_to_a_folder_stays_on_the_host(site: Ground, target: str, where: str) -> None:
    for name in ("folder", "evil.test"):
        put(site, f"{name}/index.html", name)
    answer = get(site, target)
    assert (answer.status, answer.headers["location"]) == (301, where)
    assert get(site, where).status == 200


def test_a_redirect_carries_no_header_of_the_visitor_s(site: Ground) -> None:
    (site.home() / "htdocs" / "a\r\nSet-Cookie: x=1").mkdir()
    answer = get(site, "/a%0d%0aSet-Cookie:%20x=1")
    assert answer.status == 301 and "set-cookie" not in answer.headers


def test_a_folder_is_not_listed(site: Ground) -> None:
    put(site, "unlisted/page.html")
    assert get(site, "/unlisted/").status == 404


def test_before_the_first_site_everything_is_absent(serving: Ground) -> None:
    assert not serving.policy.web_config_dir.exists()
    assert get(serving, "/").status == 404


def test_a_site_is_served_from_the_moment_it_is_published(site: Ground) -> None:
    made = [site.create_site(number, f"site-{number}.test") for number in range(11, 31)]
    assert [told["status"] for told in made] == [200] * 20


def test_the_last_good_configuration_stays_while_one_is_bad(site: Ground) -> None:
    bad = site.policy.web_config_dir / "9.site.json"
    bad.write_text("{")
    assert get(site, "/").status == 200
    bad.unlink()


def test_it_ends_in_order_when_asked_to(folder: Path) -> None:
    with web_server(folder) as (address, process):
        # It listens a moment before it serves.
        assert ask(address, "/", DOMAIN).status == 404
        process.terminate()
        assert process.wait(10) == 0
        assert not answers(address)


def test_an_address_that_is_taken_is_said(site: Ground) -> None:
    where = ["--config-dir", "/nonexistent", "--address", site.policy.web_address]
    command = [sys.executable, "-m", "agent.tools.web_server", *where]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"cannot listen on {site.policy.web_address}: " in done.stderr
