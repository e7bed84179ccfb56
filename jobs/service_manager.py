"""What a worker tells systemd, where it was started by it: ready, alive, stopping (sd_notify)."""

import logging
import os
import socket

logger = logging.getLogger(__name__)
# A manager that is stuck must not make its worker stand still.
PATIENCE = 1.0


def tell(*lines: str) -> bool:
    """Send lines such as READY=1 to the service manager; give whether there was one that took them.

    The protocol: one datagram of lines to the Unix socket that NOTIFY_SOCKET names; @ stands for an abstract
    name (sd_notify(3)).
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    target = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(PATIENCE)
            sender.sendto("\n".join(lines).encode(), target)
    except OSError as error:
        logger.warning("the service manager could not be told: %s", error)
        return False
    return True


def watchdog_seconds() -> float | None:
    """Give how often the watchdog wants a sign of life: half of its limit; None where there is none.

    The limit is in microseconds, and meant for the process with number WATCHDOG_PID (sd_watchdog_enabled(3)).
    """
    limit = os.environ.get("WATCHDOG_USEC", "")
    meant = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    if not limit.isascii() or not limit.isdigit() or int(limit) == 0 or meant != str(os.getpid()):
        return None
    return int(limit) / 2_000_000
