"""HTTP/1.1 for one request at a time, without I/O.

request() makes the bytes of a request. A Response is fed with what arrives
until it is complete. Both clients use these.
"""

import json

from .verdict import RefusedError, SluiceError

MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024


def request(method, path, host, token, body):
    """The bytes of a request. `body` is a JSON value, or None."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    content = b""
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body is not None:
        content = json.dumps(body, separators=(",", ":")).encode()
        lines.append("Content-Type: application/json")
    if method != "GET":
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join(lines + ["", ""]).encode("latin-1") + content


def refuse(name):
    """NaN and Infinity are no JSON."""
    raise ValueError(f"{name} is no number")


def text_of(value):
    return value if isinstance(value, str) else None


class Response:
    """Reads one response. `done` is true when it is complete."""

    def __init__(self):
        self.status = 0
        self.headers = {}
        self.body = b""
        self.keep_alive = False
        self.done = False
        self.buffer = bytearray()
        self.length = None  # None: the head is not complete; -1: until EOF
        self.chunks = None  # a list while a chunked body is read

    def feed(self, data):
        """Take the bytes that arrived; b"" is the end of the connection."""
        self.buffer += data
        if self.length is None:
            self._read_head()
        if self.length is not None and not self.done:
            self._read_body(not data)
        if not data and not self.done:
            raise SluiceError("the connection was closed before the answer",
                              "malformed" if self.buffer or self.status
                              else "unreachable")

    def _read_head(self):
        while self._read_one_head() and self.length is None:
            pass  # an interim answer, such as 102

    def _read_one_head(self):
        """Read a head. False if it is not complete."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > MAX_HEAD:
                raise SluiceError("the head of the answer is too long")
            if not b"HTTP/1.".startswith(self.buffer[:7]) and \
                    not self.buffer.startswith(b"HTTP/1."):
                raise SluiceError("the answer is not HTTP")
            return False
        lines = self.buffer[:end].decode("latin-1").split("\r\n")
        del self.buffer[:end + 4]
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or \
                not (words[1].isascii() and words[1].isdigit() and
                     len(words[1]) == 3):
            raise SluiceError("the answer is not HTTP")
        self.status = int(words[1])
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise SluiceError("the answer has an invalid header")
            self.headers[name.strip().lower()] = value.strip()
        if 100 <= self.status < 200:
            self.headers = {}
        else:
            self._plan_body(words[0])
        return True

    def _plan_body(self, version):
        connection = self.headers.get("connection", "").lower()
        self.keep_alive = connection != "close" and version == "HTTP/1.1"
        length = self.headers.get("content-length")
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            self.length, self.chunks = 0, []
        elif length is None:
            self.length = 0 if self.status in (204, 304) else -1
            self.keep_alive = self.keep_alive and self.length == 0
        elif length.isascii() and length.isdigit() and \
                int(length) <= MAX_BODY:
            self.length = int(length)
        else:
            raise SluiceError("the answer has an invalid Content-Length")

    def _read_body(self, ended):
        if self.chunks is not None:
            self._read_chunks()
            return
        if self.length == -1:
            if len(self.buffer) > MAX_BODY:
                raise SluiceError("the answer is too long")
            if ended:
                self.body, self.done = bytes(self.buffer), True
        elif len(self.buffer) >= self.length:
            self.body = bytes(self.buffer[:self.length])
            self.keep_alive = self.keep_alive and \
                len(self.buffer) == self.length
            self.done = True

    def _read_chunks(self):
        while True:
            end = self.buffer.find(b"\r\n")
            if end < 0:
                return
            try:
                size = int(self.buffer[:end].split(b";")[0], 16)
            except ValueError:
                raise SluiceError("the answer has an invalid chunk") from None
            if size < 0 or sum(map(len, self.chunks)) + size > MAX_BODY:
                raise SluiceError("the answer is too long")
            if len(self.buffer) < end + 2 + size + 2:
                return
            self.chunks.append(bytes(self.buffer[end + 2:end + 2 + size]))
            del self.buffer[:end + 2 + size + 2]
            if size == 0:
                self.body, self.done = b"".join(self.chunks), True
                self.keep_alive = self.keep_alive and not self.buffer
                return

    def json(self):
        """The body as a JSON value. Raises RefusedError for a refusal."""
        try:
            value = json.loads(self.body, parse_constant=refuse)
        except (ValueError, RecursionError):  # RecursionError: [[[[...
            value = None
        if self.status not in (200, 202):
            problem = value if isinstance(value, dict) else {}
            raise RefusedError(self.status, text_of(problem.get("code")),
                               text_of(problem.get("detail")))
        if value is None:
            raise SluiceError("the answer is not JSON")
        return value
