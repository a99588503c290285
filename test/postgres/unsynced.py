"""A session as of a daemon that is stopped while it sends: it locks something,
keeps the transaction, and waits for the rest of what was sent.

unsynced.py PORT slots     a daemon that has locked all slots
unsynced.py PORT endpoint  one that has locked the endpoints of webhooks
unsynced.py PORT other     another program, with locks that look similar, that
                           reads our tables
"""
import socket
import struct
import sys

NUMBER = ("INSERT INTO sluice.writers(word, mark) VALUES('stopped', 1)"
          " ON CONFLICT(word) DO UPDATE SET mark = writers.mark + 1")
SLOTS = " FROM generate_series(0, 255) AS slot"
LOCKS = {
    "slots": (NUMBER, "SELECT pg_advisory_xact_lock(1936487779, slot)" + SLOTS),
    "endpoint": (NUMBER, "SELECT 1 FROM sluice.webhook_endpoints FOR UPDATE"),
    "other": ("SELECT pg_advisory_xact_lock(1936487779::bigint << 32 | slot)" +
              SLOTS, "SELECT max(at) FROM sluice.writers"),
}


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def until_ready(server):
    last = b""
    while not last.endswith(b"Z\0\0\0\5" + b"I"):
        more = server.recv(65536)
        if not more:
            raise EOFError(last)
        last += more


def main():
    port, what = int(sys.argv[1]), sys.argv[2]
    server = socket.create_connection(("127.0.0.1", port))
    start = b"user\0postgres\0database\0postgres\0\0"
    server.sendall(struct.pack("!II", len(start) + 8, 3 << 16) + start)
    until_ready(server)
    for sql in ("BEGIN", *LOCKS[what], "SELECT 1"):
        text = sql.encode() + b"\0"
        server.sendall(message(b"P", b"\0" + text + b"\0\0") +
                       message(b"B", b"\0" * 8) +
                       message(b"E", b"\0" * 5))
    while server.recv(65536):
        pass
    print("ended")


main()
