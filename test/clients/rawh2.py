#!/usr/bin/python3
"""rawh2 -- the gRPC listener and clients that do not keep to the protocol.

Frames are made by python3-h2 where they are right, and by hand where they are
not. Whatever is sent, the daemon answers others, and ends the connection of
a client that floods it.

usage: rawh2.py SLUICED_TEST
"""

import socket
import struct
import sys

import h2.config
import h2.connection
import h2.events

import grpcs
from grpcs import SHOULD, Daemon, Response, Tap, request, short

POLICY = """
sluice: 1
limits: { api: { kind: fixed-window, per: user, rate: 1000/day } }
routes: [{ job: api, limits: [api] }]
default: []
"""
DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
CONTINUATION = 9
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) +
            struct.pack(">I", stream) + payload)


def message(payload, flag=0, length=None):
    size = len(payload) if length is None else length
    return bytes([flag]) + struct.pack(">I", size) + payload


def ann():
    return request("api", {"user": "ann"}).SerializeToString()


class Plain:
    """A socket, and bytes by hand."""

    def __init__(self, where):
        host, port = where.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10)

    def send(self, data):
        """False if the daemon has gone meanwhile."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def rest(self):
        """All until the end."""
        got = b""
        try:
            while True:
                more = self.socket.recv(65536)
                if not more:
                    return got
                got += more
        except ConnectionResetError:
            return got
        except socket.timeout:
            return None

    def close(self):
        self.socket.close()


def frames_of(data):
    """(kind, flags, stream, payload) of each; of what h2 never shows."""
    at = 0
    while data and at + 9 <= len(data):
        size = int.from_bytes(data[at:at + 3], "big")
        yield (data[at + 3], data[at + 4],
               int.from_bytes(data[at + 5:at + 9], "big"),
               data[at + 9:at + 9 + size])
        at += 9 + size


def goaway_of(data):
    """The last code of a GOAWAY; None if there is none."""
    code = None
    for kind, _, _, payload in frames_of(data):
        if kind == GOAWAY:
            code = int.from_bytes(payload[4:8], "big")
    return code


class Client(Plain):
    """One that speaks HTTP/2 by h2, with checks of its own side off."""

    def __init__(self, where):
        super().__init__(where)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8",
            validate_outbound_headers=False,
            normalize_outbound_headers=False))
        self.h2.initiate_connection()
        self.flush()
        self.fields, self.data, self.ended, self.reset = {}, {}, set(), {}
        self.gone = False

    def flush(self):
        return self.send(self.h2.data_to_send())

    def begin(self, path=SHOULD, end=False, **fields):
        stream = self.h2.get_next_available_stream_id()
        head = {":method": "POST", ":path": path, ":scheme": "http",
                ":authority": "x", "te": "trailers",
                "content-type": "application/grpc"}
        head.update({k.replace("_", "-"): v for k, v in fields.items()})
        head[":method"] = head.pop("method", ":method" in head and "POST")
        pairs = [(k, v) for k, v in head.items() if k.startswith(":")]
        pairs += [(k, v) for k, v in head.items() if not k.startswith(":")]
        self.h2.send_headers(stream, pairs, end_stream=end)
        self.flush()
        return stream

    def wait(self, stream):
        """Read until the stream has ended. (status, sentence, body)"""
        while not (stream in self.ended or stream in self.reset):
            if not self.read():
                break
        fields = self.fields.get(stream, {})
        return (fields.get("grpc-status"), fields.get("grpc-message", ""),
                self.data.get(stream, b""))

    def take(self, event):
        if isinstance(event, (h2.events.ResponseReceived,
                              h2.events.TrailersReceived)):
            self.fields.setdefault(event.stream_id, {}).update(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            self.data[event.stream_id] = (
                self.data.get(event.stream_id, b"") + event.data)
            self.h2.acknowledge_received_data(
                event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.add(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.reset[event.stream_id] = event.error_code
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.gone = True

    def read(self):
        """Take what has come. False at the end."""
        try:
            data = self.socket.recv(65536)
        except (ConnectionResetError, socket.timeout):
            data = b""
        for event in self.h2.receive_data(data) if data else ():
            self.take(event)
        self.gone = self.gone or not data
        return not self.gone and self.flush()

    def ask(self, body=None, path=SHOULD, **fields):
        stream = self.begin(path, **fields)
        body = message(ann()) if body is None else body
        while stream not in self.ended and stream not in self.reset:
            size = min(self.h2.local_flow_control_window(stream), len(body),
                       self.h2.max_outbound_frame_size)
            if size < len(body) and size == 0:
                if not self.read():
                    break
                continue
            self.h2.send_data(stream, body[:size], end_stream=size == len(body))
            self.flush()
            body = body[size:]
            if not body:
                break
        return self.wait(stream)


def serves(daemon):
    client = Client(daemon.grpc)
    status, _, data = client.ask()
    client.close()
    return status == "0" and short(
        Response.FromString(data[5:])).startswith("OK api:1000/DAY")


def test_messages(tap, daemon):
    client = Client(daemon.grpc)
    tap.same("a good one is answered", client.ask()[0], "0")
    tap.same("no message", client.ask(b"")[:2],
             ("3", "the request has no message"))
    tap.same("a message that ends early",
             client.ask(message(ann(), length=len(ann()) + 1))[:2],
             ("3", "the message is shorter than its length prefix"))
    tap.same("half a prefix", client.ask(b"\0\0\0")[:2],
             ("3", "the message is shorter than its length prefix"))
    tap.same("something behind it", client.ask(message(ann()) + b"x")[:2],
             ("3", "the request has bytes after the message"))
    tap.same("two of them", client.ask(2 * message(ann()))[0], "3")
    tap.same("a length of four gigabytes",
             client.ask(message(ann(), length=2**32 - 1))[:2],
             ("8", "the message has 4294967295 bytes; the maximum is 65536"))
    tap.same("the longest is read", client.ask(
        message(b"\x0a\x01d" + b"\x22\xf9\xff\x03" + 65529 * b"x"))[:2],
        ("3", "rate limit descriptor list must not be empty"))
    status, why, _ = client.ask(message(ann(), flag=1))
    stream = max(client.fields)
    tap.same("compressed", [status, "compressed" in why,
                            client.fields[stream].get(
                                "grpc-accept-encoding")],
             ["12", True, "identity"])
    tap.same("sentences are encoded", client.ask(
        message(b"\x0a\x02\xc3\xa9"), path="/grpc.health.v1.Health/Check")[:2],
        ("5", "unknown service \"%C3%A9\""))
    client.close()


def test_heads(tap, daemon):
    client = Client(daemon.grpc)
    tap.same("an unknown method", client.ask(path="/x.Y/z")[0], "12")
    tap.same("an unknown path", client.ask(path="/")[0], "12")
    client.ask(content_type="text/plain")
    tap.same("no gRPC is told so by HTTP",
             client.fields[max(client.fields)][":status"], "415")
    tap.same("and what is needed", client.data[max(client.fields)],
             b"this is the grpc listener, which needs POST and content-type: "
             b"application/grpc\n")
    client.ask(method="GET")
    tap.same("nor is GET", client.fields[max(client.fields)][":status"], "415")
    client.ask(content_type="application/grpcx")
    tap.same("nor what looks like it",
             client.fields[max(client.fields)][":status"], "415")
    tap.same("with a format it is", client.ask(
        content_type="application/grpc+proto")[0], "0")
    for text in ("", "5", "m", "123456789m", "5x", "-5m", "1.5S"):
        tap.same(f"grpc-timeout {text!r}", client.ask(
            grpc_timeout=text)[0], "3")
    for text in ("99999999H", "5M", "60S", "60000m", "99999999u"):
        tap.same(f"grpc-timeout {text!r} is one", client.ask(
            grpc_timeout=text)[0], "0")
    tap.same("a timeout that has passed", client.ask(grpc_timeout="1n")[0],
             "4")
    stream = client.begin(end=True)
    tap.same("a head alone", client.wait(stream)[:2],
             ("3", "the request has no message"))
    stream = client.begin(x="y" * 17000)
    client.wait(stream)
    tap.check("a head that is too long ends its stream",
              stream in client.reset, client.fields.get(stream))
    tap.same("and no other", client.ask()[0], "0")
    client.close()


def test_early_answer(tap, daemon):
    client = Client(daemon.grpc)
    stream = client.begin(path="/x.Y/z")
    tap.same("a request denied by its headers is answered before its body",
             client.wait(stream)[0], "12")
    stream = client.begin()
    client.h2.send_data(stream, message(b"", length=1 << 20))
    client.flush()
    tap.same("so is who announces too much", client.wait(stream)[0], "8")
    client.close()


def test_other_protocols(tap, daemon):
    plain = Plain(daemon.grpc)
    plain.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    got = plain.rest()
    tap.check("HTTP/1 is told where it is", got is not None and
              got.startswith(b"HTTP/1.1 400 ") and b"grpc listener" in got, got)
    head, _, body = got.partition(b"\r\n\r\n")
    tap.check("in a whole answer",
              b"Content-Length: %d\r\n" % len(body) in head, got)
    for name, data in (("POST", b"POST /v1/check HTTP/1.1\r\n"),
                       ("Redis", b"*1\r\n$4\r\nPING\r\n"),
                       ("TLS", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1"),
                       ("half a preface", PREFACE[:10] + b"no more")):
        plain = Plain(daemon.grpc)
        plain.send(data)
        tap.check(f"{name} is closed", plain.rest() is not None)
    plain = Plain(daemon.grpc)
    plain.send(b"INVALID CONNECTION PREFACE\r\n\r\n")
    tap.same("what is neither HTTP/1 nor HTTP/2", goaway_of(plain.rest()), 1)


def flood(daemon, make, most=60000, before=b""):
    """Send until it ends, or `most` frames are sent. What came back, until
    the end; None if there is none."""
    plain = Plain(daemon.grpc)
    plain.send(PREFACE + frame(SETTINGS, 0, 0) + before)
    sent = 0
    while sent < most and plain.send(make(sent)):
        sent += 100
    if most == sent:
        plain.socket.settimeout(5)
    return plain.rest()


HEAD = (b"\x83\x86\x41\x01x\x00\x05:path\x01/"
        b"\x00\x0ccontent-type\x10application/grpc")


def reset_flood(sent):
    out = b""
    for i in range(100):
        stream = 1 + 2 * (sent + i)
        out += frame(HEADERS, 4, stream, HEAD)
        out += frame(RST, 0, stream, struct.pack(">I", 8))
    return out


def test_floods(tap, daemon):
    floods = (
        ("rapid reset", reset_flood, b""),
        ("pings", lambda _: 100 * frame(PING, 0, 0, 8 * b"x"), b""),
        ("settings", lambda _: 100 * frame(SETTINGS, 0, 0), b""),
        ("a head that is continued for ever",
         lambda _: 100 * frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b"),
         frame(HEADERS, 0, 1, HEAD)),
        ("empty data", lambda _: 100 * frame(DATA, 0, 1),
         frame(HEADERS, 4, 1, HEAD.replace(b"\x05:path\x01/", b"\x05:path" +
               bytes([len(SHOULD)]) + SHOULD.encode()))),
        ("priorities", lambda _: 100 * frame(2, 0, 3, 5 * b"\0"), b""),
        ("windows", lambda _: 100 * frame(WINDOW, 0, 0, b"\0\0\0\1"), b""),
        ("unknown frames", lambda _: 100 * frame(200, 0, 0, b"x"), b""),
        ("data on a closed stream", lambda _: 100 * frame(DATA, 0, 1),
         frame(HEADERS, 5, 1, HEAD) + frame(RST, 0, 1, 4 * b"\0")),
    )
    for name, make, before in floods:
        used = daemon.cpu()
        got = flood(daemon, make, before=before)
        tap.same(f"{name}: it ends by GOAWAY", goaway_of(got), 11)
        tap.check(f"{name}: others are served", serves(daemon))
        tap.check(f"{name}: at little cost", daemon.cpu() - used < 2)


def settled(plain):
    """All frames until two pings are answered, one after the other: an answer
    to a ping overtakes a reset."""
    got = b""
    for sent in (1, 2):
        plain.send(frame(PING, 0, 0, 8 * b"x"))
        while sum(f[0] == PING for f in frames_of(got)) < sent:
            try:
                more = plain.socket.recv(65536)
            except ConnectionResetError:
                return got
            if not more:
                return got
            got += more
    return got


def ends(got):
    """The codes of resets of streams, and that of a GOAWAY."""
    return ([int.from_bytes(f[3], "big") for f in frames_of(got)
             if f[0] == RST], goaway_of(got))


def test_closed_streams(tap, daemon):
    rows = (
        ("data", frame(DATA, 1, 1, b"x"), ([5], None)),
        ("empty data", frame(DATA, 0, 1), ([5], None)),
        ("a head", frame(HEADERS, 5, 1, HEAD), ([], 5)),
        ("a window", frame(WINDOW, 0, 1, b"\0\0\0\1"), ([], None)),
        ("a priority", frame(2, 0, 1, 5 * b"\0"), ([], None)),
        ("a reset", frame(RST, 0, 1, 4 * b"\0"), ([], None)),
    )
    for name, more, codes in rows:
        plain = Plain(daemon.grpc)
        plain.send(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 5, 1, HEAD))
        settled(plain)
        plain.send(more)
        tap.same(f"{name} on a stream that is answered",
                 ends(settled(plain)), codes)
        plain.close()
    for name, head in (("gRPC", HEAD.replace(
            b"\x05:path\x01/",
            b"\x05:path" + bytes([len(SHOULD)]) + SHOULD.encode())),
                       ("no gRPC", HEAD.replace(b"/grpc", b"/xxxx"))):
        for what, more, codes in (
                ("data", frame(DATA, 1, 1, b"x"), ([5], None)),
                ("a head", frame(HEADERS, 5, 1, head), ([], 5))):
            for apart in (False, True):
                plain = Plain(daemon.grpc)
                data = [PREFACE + frame(SETTINGS, 0, 0) +
                        frame(HEADERS, 4, 1, head),
                        frame(RST, 0, 1, struct.pack(">I", 8)), more]
                for part in data if apart else [b"".join(data)]:
                    plain.send(part)
                tap.same(f"{name}: {what} after a reset, "
                         f"{'apart' if apart else 'at once'}",
                         ends(settled(plain)), codes)
                plain.close()
    for apart in (False, True):
        plain = Plain(daemon.grpc)
        data = [PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 5, 5, HEAD),
                frame(HEADERS, 5, 3, HEAD)]
        for part in data if apart else [b"".join(data)]:
            plain.send(part)
        tap.same("a stream that was left out, "
                 f"{'apart' if apart else 'at once'}",
                 ends(settled(plain)), ([], 1))
        plain.close()
    client = Client(daemon.grpc)
    stream = client.begin(path="/x.Y/z")
    client.wait(stream)
    plain = frame(DATA, 0, stream, b"x")
    client.send(10 * plain)
    tap.same("what was on its way when this side reset is ignored",
             [client.ask()[0], client.reset.get(stream)], ["0", 0])
    client.close()


def test_bad_frames(tap, daemon):
    begin = PREFACE + frame(SETTINGS, 0, 0)
    rows = (
        ("a frame longer than agreed", frame(DATA, 0, 1, 20000 * b"x")),
        ("data on stream 0", frame(DATA, 0, 0, b"x")),
        ("data on a stream that was not begun", frame(DATA, 0, 5, b"x")),
        ("settings of odd length", frame(SETTINGS, 0, 0, b"x")),
        ("a ping of seven bytes", frame(PING, 0, 0, 7 * b"x")),
        ("a head that is no HPACK", frame(HEADERS, 4, 1, b"\xff\xff\xff\xff")),
        ("an even stream", frame(HEADERS, 4, 2, HEAD)),
        ("a window of 0", frame(8, 0, 0, b"\0\0\0\0")),
        ("continuation of nothing", frame(CONTINUATION, 4, 1, b"")),
    )
    for name, bad in rows:
        plain = Plain(daemon.grpc)
        plain.send(begin + bad)
        got = plain.rest()
        tap.check(f"{name} ends the connection", got is not None and
                  goaway_of(got) not in (None, 0), got)
    plain = Plain(daemon.grpc)
    plain.send(begin + frame(HEADERS, 4, 1, HEAD)[:-5])
    plain.socket.shutdown(socket.SHUT_WR)
    tap.check("half a frame and the end", plain.rest() is not None)
    tap.check("others are served all the while", serves(daemon))


def test_streams(tap, daemon):
    client = Client(daemon.grpc)
    client.ask()
    streams = [client.begin() for _ in range(100)]
    for stream in streams:
        client.h2.send_data(stream, message(ann()), end_stream=True)
    client.flush()
    tap.same("a hundred at once are answered",
             {client.wait(stream)[0] for stream in streams}, {"0"})
    for _ in range(99):
        client.begin()
    tap.same("with 99 that do not come, one more is", client.ask()[0], "0")
    client.close()
    plain = Plain(daemon.grpc)
    plain.send(PREFACE + frame(SETTINGS, 0, 0) + b"".join(
        frame(HEADERS, 4, 1 + 2 * i, HEAD.replace(
            b"\x05:path\x01/", b"\x05:path" + bytes([len(SHOULD)]) +
            SHOULD.encode())) for i in range(150)))
    got, refused = b"", 0
    plain.socket.settimeout(60)
    try:
        while more := plain.socket.recv(65536):
            got += more
            refused = sum(1 for f in frames_of(got) if f[0] == RST)
            if refused >= 50:
                plain.socket.settimeout(0.5)  # and no more of them
    except socket.timeout:
        pass
    tap.same("those beyond a hundred are refused", refused, 50)
    plain.close()


def test_slow_reader(tap, daemon):
    plain = Plain(daemon.grpc)
    plain.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    window = frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))
    plain.send(PREFACE + window)
    head = HEAD.replace(b"\x05:path\x01/", b"\x05:path" +
                        bytes([len(SHOULD)]) + SHOULD.encode())
    for i in range(100):
        plain.send(frame(HEADERS, 4, 1 + 2 * i, head) +
                   frame(DATA, 1, 1 + 2 * i, message(ann())))
    tap.check("responses without flow control window wait", serves(daemon))
    plain.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)))
    plain.socket.settimeout(60)
    got, ends = b"", 0
    try:
        while ends < 100:
            got += plain.socket.recv(65536)
            ends = sum(1 for f in frames_of(got)
                       if f[0] == HEADERS and f[1] & 1)
    except socket.timeout:
        pass
    tap.same("until the client reads", ends, 100)
    plain.close()


def main():
    tap = Tap()
    daemon = Daemon(sys.argv[1], POLICY, virtual=False)
    test_messages(tap, daemon)
    test_heads(tap, daemon)
    test_early_answer(tap, daemon)
    test_other_protocols(tap, daemon)
    test_bad_frames(tap, daemon)
    test_closed_streams(tap, daemon)
    test_streams(tap, daemon)
    test_slow_reader(tap, daemon)
    test_floods(tap, daemon)
    page = daemon.tell("/metrics")
    tap.check("floods are counted", 'why="flood"' in page)
    tap.check("connections are counted and gone", grpcs.until(
        lambda: 'sluice_connections{door="grpc"} 0' in daemon.tell(
            "/metrics")))
    tap.same("it ends well", daemon.stop(), 0)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
