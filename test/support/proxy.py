#!/usr/bin/env python3
"""proxy.py SERVER CONTROL -- a network that fails, between a client and a
server (HOST:PORT, or the path of a unix socket).

Prints the port of loopback where it listens, and then obeys words that
`proxy.py --tell CONTROL WORD` sends to the unix socket CONTROL; the command
returns when the word is in force:

  pass    bytes go both ways
  cut     all bytes are dropped, of new connections, too
  hold    what the server says is kept until "pass"; "cut" drops it
  delay N what the server says comes N ms later
  close   as "pass", and all connections are closed
  after N as "pass", until the server has said something N times: then all
          connections are closed, and so is each new one
  gone N  as "after N", but the N-th answer is delivered, all is closed at once,
          and nothing listens until the next word
  move SERVER  as "close", and new connections go to this server

No other word closes a connection. A connection that has lost bytes stays dead on
both sides, as if its network never came back; others go on.
"""
import selectors
import socket
import sys
import time


def tell(control, words):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(control)
        link.sendall(" ".join(words).encode())
        link.shutdown(socket.SHUT_WR)
        answer = link.recv(64)
    sys.exit(0 if answer == b"ok" else 1)


class Line:
    """One connection through the proxy."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.dead = False
        self.held = []  # (when it may go on, bytes)


class Proxy:
    def __init__(self, server, control):
        self.server = server
        self.word, self.delay = "pass", 0.0
        self.left = 0  # of "after"
        self.ready = selectors.DefaultSelector()
        self.lines = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.control = socket.socket(socket.AF_UNIX)
        self.control.bind(control)
        self.control.listen(8)
        self.watch(self.listener, self.accept, None)
        self.watch(self.control, self.obey, None)

    def watch(self, sock, call, line):
        self.ready.register(sock, selectors.EVENT_READ, (call, line))

    def dial(self):
        if "/" in self.server:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.server)
            return sock
        host, port = self.server.rsplit(":", 1)
        return socket.create_connection((host, int(port)), 5)

    def accept(self, _):
        client = self.listener.accept()[0]
        if self.word == "after" and self.left == 0:
            client.close()
            return
        if self.word == "cut":
            line = Line(client, None)
            line.dead = True
        else:
            try:
                server = self.dial()
            except OSError:
                client.close()
                return
            server.settimeout(None)
            line = Line(client, server)
            self.watch(server, self.from_server, line)
        self.lines.add(line)
        self.watch(client, self.from_client, line)

    def obey(self, _):
        link = self.control.accept()[0]
        words = link.recv(4096).decode().split()
        self.word = words[0]
        self.delay = int(words[1]) / 1000 if self.word == "delay" else 0.0
        self.left = int(words[1]) if self.word in ("after", "gone") else 0
        if self.word == "gone" and self.left == 0:
            self.leave()
        elif not self.listener:
            self.listener = socket.create_server(("127.0.0.1", self.port),
                                                 backlog=64)
            self.watch(self.listener, self.accept, None)
        if self.word in ("close", "move"):
            self.server = words[1] if self.word == "move" else self.server
            self.word = "pass"
            for line in list(self.lines):
                self.close(line)
        for line in self.lines:
            if line.held and self.word == "cut":
                line.dead, line.held = True, []
            elif line.held and self.word == "pass":
                line.held = [(0, b"".join(held for _, held in line.held))]
        link.sendall(b"ok")
        link.close()

    def leave(self):
        for line in list(self.lines):
            self.close(line)
        if self.listener:
            self.ready.unregister(self.listener)
            self.listener.close()
            self.listener = None

    def close(self, line):
        for sock in (line.client, line.server):
            if sock:
                self.ready.unregister(sock)
                sock.close()
        self.lines.discard(line)

    def read(self, line, sock):
        try:
            got = sock.recv(65536)
        except OSError:
            got = b""
        if got:
            return got
        if not line.dead:
            self.close(line)
        else:  # the other side learns nothing
            self.ready.unregister(sock)
            sock.close()
            if sock is line.client:
                line.client = None
            else:
                line.server = None
        return None

    def from_client(self, line):
        got = self.read(line, line.client)
        if got is None or line.dead:
            return
        if self.word == "cut":
            line.dead = True
            return
        try:
            line.server.sendall(got)
        except OSError:
            self.close(line)

    def from_server(self, line):
        got = self.read(line, line.server)
        if got is None or line.dead:
            return
        if self.word == "after" and self.left == 0:
            for each in list(self.lines):
                self.close(each)
            return
        self.left -= self.word == "after"
        if self.word == "cut":
            line.dead = True
        elif self.word == "hold":
            line.held.append((float("inf"), got))
        else:
            line.held.append((time.monotonic() + self.delay, got))
            self.let_go(line)
        if self.word == "gone":
            self.left -= 1
            if self.left == 0:
                self.leave()

    def let_go(self, line):
        while line.held and line.held[0][0] <= time.monotonic():
            try:
                line.client.sendall(line.held.pop(0)[1])
            except OSError:
                self.close(line)
                return

    def run(self):
        print(self.port, flush=True)
        while True:
            late = any(line.held for line in self.lines)
            for key, _ in self.ready.select(0.002 if late else None):
                call, line = key.data
                gone = key.fileobj.fileno() < 0  # closed by a call before
                if not gone and (line is None or line in self.lines):
                    call(line)
            for line in list(self.lines):
                self.let_go(line)


if sys.argv[1] == "--tell":
    tell(sys.argv[2], sys.argv[3:])
Proxy(sys.argv[1], sys.argv[2]).run()
