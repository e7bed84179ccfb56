"""How the builtin web server answers: static files of the site that the Host header names, no more."""

import mimetypes
import os
import stat
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Lock
from typing import ClassVar
from urllib.parse import quote, unquote_to_bytes

from agent.exceptions import ActionFailed
from agent.paths import open_below
from agent.web.builtin import read_all

# Source code and data that a static server must never hand out.
REFUSED_ENDINGS = (
    b".php", b".phtml", b".phar", b".inc", b".py", b".pl", b".cgi", b".sh", b".sql", b".sqlite", b".sqlite3",
    b".db", b"-wal", b"-shm", b"-journal", b".bak", b".old", b".orig", b".save", b".env", b".ini", b".conf",
    b".log", b".htaccess", b"~",
)  # fmt: skip
CHUNK = 256 * 1024
LONGEST_PATH = 4096
READ_SECONDS = 20
FRESH_NANOSECONDS = 2_000_000_000


class Configuration:
    """The sites by name, read anew when the folder changes; the last good one stays while one is bad."""

    def __init__(self, folder: Path) -> None:
        """Take the folder that the driver writes to."""
        self._folder = folder
        self._lock = Lock()
        self._seen = -1
        self._roots: dict[str, Path] = {}

    def root_of(self, name: str) -> Path | None:
        """Give a site's document root."""
        with self._lock:
            changed = self._changed_at()
            # The clock of the file system has steps: what changed just now may change again in the same one.
            if changed != self._seen or time.time_ns() - changed < FRESH_NANOSECONDS:
                self._read(changed)
            return self._roots.get(name)

    def _changed_at(self) -> int:
        try:
            return self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            # No site was ever made here.
            return 0

    def _read(self, changed: int) -> None:
        try:
            hosts = read_all(self._folder)
        except ActionFailed:
            return
        self._roots = {name: host.document_root for host in hosts for name in host.names}
        self._seen = changed


@dataclass(frozen=True)
class Found:
    """A file to send: its descriptor, size, and kind of content."""

    descriptor: int
    size: int
    content_type: str = field(default="application/octet-stream")


class Refused(Exception):
    """The request gets this status and no file."""

    def __init__(self, status: int, where: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.where = where


class SiteHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    configuration: ClassVar[Configuration]
    protocol_version = "HTTP/1.1"
    server_version = "CHP-builtin"
    sys_version = ""
    timeout = READ_SECONDS

    def do_GET(self) -> None:
        """Send the file."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send what GET would, without the body."""
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what strangers ask for is no matter of the agent's log."""

    def _answer(self, *, with_body: bool) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            # A body is not read; what follows it on this connection could be taken for another request.
            self.close_connection = True
        try:
            found = self._find()
        except Refused as refused:
            self._refuse(refused, with_body=with_body)
            return
        with os.fdopen(found.descriptor, "rb") as file:
            self._head(200, found.content_type, found.size)
            left = found.size
            while with_body and left and (chunk := file.read(min(CHUNK, left))):
                self.wfile.write(chunk)
                left -= len(chunk)
            # A file that has shrunk: what was promised cannot be kept on this connection.
            self.close_connection = self.close_connection or (with_body and left > 0)

    def _find(self) -> Found:
        if len(self.headers.get_all("Host") or []) > 1:
            raise Refused(400)
        name = (self.headers.get("Host") or "").partition(":")[0].strip().lower().rstrip(".")
        root = self.configuration.root_of(name)
        if root is None:
            raise Refused(404)
        return find(root, self.path)

    def _refuse(self, refused: Refused, *, with_body: bool) -> None:
        phrase = self.responses.get(refused.status, ("Error", ""))[0]
        body = f"{refused.status} {phrase}\n".encode()
        self._head(refused.status, "text/plain; charset=utf-8", len(body), refused.where)
        if with_body:
            self.wfile.write(body)

    def _head(self, status: int, content_type: str, size: int, where: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(size))
        self.send_header("X-Content-Type-Options", "nosniff")
        if where:
            self.send_header("Location", where)
        self.end_headers()


def find(root: Path, target: str) -> Found:
    """Find the file that a request's target names below a document root. Raises Refused."""
    path = target.partition("?")[0].partition("#")[0]
    if not path.startswith("/") or len(path) > LONGEST_PATH:
        raise Refused(400)
    below = unquote_to_bytes(path)
    names = [name for name in below.split(b"/") if name]
    if b"\0" in below or any(name.startswith(b".") for name in names):
        raise Refused(404)
    if names and names[-1].lower().endswith(REFUSED_ENDINGS):
        raise Refused(403)
    return _opened(root, names, ends_in_slash=below.endswith(b"/"))


def _opened(root: Path, names: list[bytes], *, ends_in_slash: bool) -> Found:
    descriptor = _open(root, names) if names else _open(root, [b"index.html"])
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        os.close(descriptor)
        if not ends_in_slash:
            raise Refused(301, "/" + "/".join(quote(name) for name in names) + "/")
        return _opened(root, [*names, b"index.html"], ends_in_slash=False)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Refused(404)
    kind, _ = mimetypes.guess_type(os.fsdecode(names[-1]) if names else "index.html")
    return Found(descriptor, status.st_size, kind or "application/octet-stream")


def _open(root: Path, names: list[bytes]) -> int:
    try:
        return open_below(root, b"/".join(names), os.O_RDONLY | os.O_NONBLOCK)
    except PermissionError as error:
        raise Refused(403) from error
    except (OSError, ValueError) as error:
        raise Refused(404) from error
