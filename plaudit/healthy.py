"""`python -m plaudit.healthy`: exit code 0 if the process of this container is ready, else 1; the image's health check.

It imports little, because it runs every few seconds.
"""

import os
import sys
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

_TIMEOUT_S = 4.0


def is_ready(http_port: int, metrics_port: int) -> bool:
    """True if the process that listens on one of these ports of this machine reports that it is ready.

    The facade reports health at its HTTP port, including whether Kafka and MongoDB answer; other processes report it at
    their metrics port. Raises OSError or HTTPException if none answers.
    """
    try:
        return _says_ready(http_port)
    except ConnectionRefusedError:
        return _says_ready(metrics_port)


def _says_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == HTTPStatus.OK
    finally:
        connection.close()


def main() -> int:
    """Check the configured ports, and return the exit code."""
    try:
        ready = is_ready(int(os.environ["PLAUDIT_HTTP__PORT"]), int(os.environ["PLAUDIT_METRICS__PORT"]))
    except (OSError, HTTPException) as error:
        sys.stderr.write(f"No answer: {error}\n")
        return 1
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
