"""Who is at the other end of the Unix socket, as the kernel tells."""

import os
import socket
import struct
from collections.abc import Collection

from agent.exceptions import PeerRefused

_CREDENTIALS = struct.Struct("3i")


def peer_uid(connection: socket.socket) -> int:
    """Give the uid of the process that connected."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, uid, _gid = _CREDENTIALS.unpack(raw)
    return int(uid)


def check_peer(connection: socket.socket, allowed_uids: Collection[int]) -> None:
    """Raise PeerRefused unless the peer is the agent's own user or an allowed one."""
    uid = peer_uid(connection)
    if uid != os.geteuid() and uid not in allowed_uids:
        raise PeerRefused(f"uid {uid} may not speak to the agent")
