"""The builtin web server: `python -m agent.tools.web_server --config-dir DIR --address HOST:PORT`."""

import argparse
import os
import signal
import socket
import sys
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import BoundedSemaphore, Thread

from agent.owner import NOBODY
from agent.web.serving import Configuration, SiteHandler

MOST_CONNECTIONS = 64


class BoundedServer(ThreadingHTTPServer):
    """Takes no more connections than it has places for; the rest wait in the kernel's queue."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int]) -> None:
        self._places = BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, SiteHandler)

    def process_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Wait for a place, then answer in a thread."""
        self._places.acquire()
        super().process_request(request, client_address)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Answer, and give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error of ours."""


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="web_server", description="Serve static files of the agent's sites."
    )
    parser.add_argument("--config-dir", type=Path, required=True)
    parser.add_argument("--address", required=True, metavar="HOST:PORT")
    chosen = parser.parse_args()
    host, _, port = chosen.address.rpartition(":")
    SiteHandler.configuration = Configuration(chosen.config_dir)
    try:
        server = BoundedServer((host, int(port)))
    except (OSError, ValueError) as error:
        sys.exit(f"web_server: cannot listen on {chosen.address}: {error}")
    if os.geteuid() == 0:
        NOBODY.drop_to()
    signal.signal(signal.SIGTERM, lambda number, frame: Thread(target=server.shutdown).start())
    server.serve_forever()
    server.server_close()


if __name__ == "__main__":
    main()
