#!/usr/bin/env python3
"""Clients that send forged addresses.

  addresses.py rotate HOST:PORT N       N requests on one connection, each with
                                        another User-Agent and language; prints
                                        how many of them passed
  addresses.py preface HOST:PORT WHAT [TIMES]
                                        send a PROXY header, a byte at a time
                                        if WHAT ends in "-slowly", then ask;
                                        prints the status and the body, or
                                        "closed", of the last time
  addresses.py ping HOST:PORT WHAT      the same by PING of the Redis protocol;
                                        prints what comes back
"""

import http.client
import ipaddress
import socket
import struct
import sys

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def header(command, family, addresses=b"", tlvs=b""):
    rest = addresses + tlvs
    return SIGNATURE + struct.pack("!BBH", 0x20 | command, family, len(rest)) + rest


def of(client, server, port=4711):
    packed = ipaddress.ip_address(client).packed + ipaddress.ip_address(server).packed
    return packed + struct.pack("!HH", port, 80)


HEADERS = {
    "tcp4": header(1, 0x11, of("203.0.113.9", "10.0.0.1")),
    "tcp4-tlvs": header(1, 0x11, of("203.0.113.9", "10.0.0.1"), b"\x04" * 3000),
    "tcp6": header(1, 0x21, of("2001:db8:0:1::9", "::1")),
    "mapped": header(1, 0x21, of("::ffff:203.0.113.9", "::1")),
    "unspec": header(1, 0x00),
    "unix": header(1, 0x31, b"/run/x".ljust(216, b"\0")),
    "local": header(0, 0x00),
    "udp": header(1, 0x12, of("203.0.113.9", "10.0.0.1")),
    "long": header(1, 0x11, of("203.0.113.9", "10.0.0.1"), b"\0" * 5000),
    "v1": b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 80\r\n",
    "none": b"",
}


def split(where):
    host, port = where.rsplit(":", 1)
    return host, int(port)


def rotate(where, count):
    host, port = split(where)
    conn = http.client.HTTPConnection(host, port)
    passed = 0
    for i in range(count):
        conn.request("GET", "/v1/auth", headers={
            "X-Original-Method": "POST",
            "X-Original-URI": "/api/wallcrawler/session",
            "X-Forwarded-For": "203.0.113.9",
            "User-Agent": f"browser/{i}",
            "Accept-Language": f"x-{i % 97}",
        })
        answer = conn.getresponse()
        answer.read()
        passed += answer.status == 200
    print(passed)


def exchange(where, what, request):
    """What is answered to a header and a request, up to the end."""
    slowly = what.endswith("-slowly")
    first = HEADERS[what.removesuffix("-slowly")]
    said = b""
    with socket.create_connection(split(where), timeout=60) as conn:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if slowly:
                for at in range(len(first)):
                    conn.sendall(first[at:at + 1])
                conn.sendall(request)
            else:
                conn.sendall(first + request)
            while piece := conn.recv(65536):
                said += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
    return said


def ping(where, what):
    said = exchange(where, what, b"PING\r\nQUIT\r\n")
    print(said.decode().split("\r\n")[0] or "closed")


def preface(where, what, times):
    for _ in range(times):
        said = exchange(where, what,
                        b"GET /v1/auth/x HTTP/1.1\r\nHost: localhost\r\n"
                        b"X-Forwarded-For: 198.51.100.7\r\n"
                        b"Connection: close\r\n\r\n")
    if not said:
        print("closed")
        return
    head, _, body = said.partition(b"\r\n\r\n")
    print(head.split()[1].decode(), body.decode())


if __name__ == "__main__":
    if sys.argv[1] == "rotate":
        rotate(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "ping":
        ping(sys.argv[2], sys.argv[3])
    else:
        preface(sys.argv[2], sys.argv[3],
                int(sys.argv[4]) if len(sys.argv) > 4 else 1)
