"""A small client of the REST API, as an integration would have it."""

import json
import time
import urllib.error
import urllib.request
from typing import Any

ENDED = {"SUCCESS", "FAILED", "CANCELLED", "RESOLVED", "ORPHANED"}


class CallFailed(Exception):
    """The API answered with a problem."""


class Client:
    """Speaks to one panel (HOST:PORT) with one token."""

    def __init__(self, panel: str, username: str, password: str) -> None:
        self._base = f"http://{panel}/api/v1/"
        self._token = ""
        self._token = self.call("POST", "auth/login/", {"username": username, "password": password})["token"]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Give the decoded answer. Raises CallFailed with the problem's sentence."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Token {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, headers, method=method)  # noqa: S310 - http only
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own loopback address
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise CallFailed(
                f"{method} {path}: {error.code} {error.read(2000).decode(errors='replace')}"
            ) from error

    def finished(self, job: dict[str, Any], seconds: float = 300) -> dict[str, Any]:
        """Follow a job to its end. Raises CallFailed unless it succeeds."""
        ends = time.monotonic() + seconds
        while job["status"] not in ENDED and time.monotonic() < ends:
            time.sleep(0.2)
            job = self.call("GET", f"jobs/{job['code']}/")
        if job["status"] != "SUCCESS":
            raise CallFailed(
                f"{job['code']} {job['type']}: {job['status']} {job['waiting_reason'] or job['error']}"
            )
        return job
