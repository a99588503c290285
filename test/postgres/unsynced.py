"""A session as of a daemon that is stopped while it sends: it locks slots and
keeps the transaction, and waits for the rest of what was sent.

unsynced.py PORT FIRST LAST         slots of Sluice
unsynced.py PORT FIRST LAST bigint  locks of another program, as similar as
                                    they can be
"""
import socket
import struct
import sys


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
    port, first, last = map(int, sys.argv[1:4])
    lock = ("1936487779::bigint << 32 | slot" if "bigint" in sys.argv else
            "1936487779, slot")
    server = socket.create_connection(("127.0.0.1", port))
    start = b"user\0postgres\0database\0postgres\0\0"
    server.sendall(struct.pack("!II", len(start) + 8, 3 << 16) + start)
    until_ready(server)
    text = ""
    for sql in ("BEGIN", f"SELECT pg_advisory_xact_lock({lock}) FROM"
                f" generate_series({first}, {last}) AS slot", "SELECT 1"):
        text = sql.encode() + b"\0"
        server.sendall(message(b"P", b"\0" + text + b"\0\0") +
                       message(b"B", b"\0" * 8) +
                       message(b"E", b"\0" * 5))
    while server.recv(65536):
        pass
    print("ended")


main()
