"""An in-memory S3 server whose client has restricted permissions, or configured a bucket that doesn't exist."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

_CODES = {403: "AccessDenied", 404: "NoSuchKey", 501: "NotImplemented"}
_ERROR = "<Error><Code>{}</Code><Message>no</Message></Error>"


@contextmanager
def strict_s3(
    patch: pytest.MonkeyPatch, *, may_list: bool = False, has_bucket: bool = True, folders: Sequence[str] = ("",)
) -> Iterator[str]:
    """The address of an image store on such a server, for the length of the block.

    Like Amazon's, it reports missing objects only to clients that may list; others get 403. Like others, it has no
    `DeleteObjects`. `folders`: prefixes in which objects may be read and written, each with a trailing slash; by
    default all.
    """
    objects: dict[str, bytes] = {}
    ours = tuple(f"/reviews/plaudit/{folder}" for folder in folders)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if "list-type" in query:
                self._answer(200, "<ListBucketResult></ListBucketResult>") if may_list else self._refuse(403)
            elif not path.startswith(ours):
                self._refuse(403)
            elif path in objects:
                self._answer(200, objects[path])
            else:
                self._refuse(404 if may_list else 403)

        def do_PUT(self) -> None:
            body = self._body()
            if not self.path.startswith(ours):
                self._refuse(403)
                return
            objects[self.path] = body
            self._answer(200, "")

        def do_POST(self) -> None:
            self._body()
            self._refuse(501)

        def do_DELETE(self) -> None:
            if not self.path.startswith(ours):
                self._refuse(403)
                return
            objects.pop(self.path, None)
            self._answer(204, "")

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _refuse(self, status: int) -> None:
            self._answer(status, _ERROR.format(_CODES[status]))

        def _answer(self, status: int, content: str | bytes) -> None:
            content = content.encode() if isinstance(content, str) else content
            if not has_bucket:
                status, content = 404, _ERROR.format("NoSuchBucket").encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Tue, 01 Sep 2026 00:00:00 GMT")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "not shown",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
    }.items():
        patch.setenv(name, value)
    try:
        yield "s3://reviews/plaudit"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
