"""What mpirun runs in place of ssh: `agent HOST WORD...` carries the words out by a shell on that host.

It asks the launcher for that through a socket (its own arguments are SOCKET HOST WORD...), hands over its
standard streams, and ends as the command does. Only the standard library is imported, for this starts once
per host.
"""

import json
import socket
import sys


def main() -> int:
    _, path, host, *words = sys.argv
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.connect(path)
        request = json.dumps({"host": host, "command": ["/bin/sh", "-c", " ".join(words)]}).encode()
        socket.send_fds(sock, [request], [0, 1, 2])
        answer = sock.recv(1 << 16)
    if not answer:
        print(f"{host}: the launcher ended", file=sys.stderr)  # noqa: T201 - mpirun shows it
        return 255
    status: int = json.loads(answer)["status"]
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
