"""spread.py PID ADDRESS ROUNDS [proxy]: open 2, 3 and 4 connections, ROUNDS times
each, and print how many each thread of the daemon PID has: the sockets in each
epoll set. With `proxy` they begin with a PROXY header and a request: the thread
that accepts a connection watches it, too, until it has read the header."""
import os
import socket
import sys
import time

pid, address, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
proxy = len(sys.argv) > 4
header = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
body = b'{"path":"/x"}'
head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


def connect():
    if address.startswith("unix:"):
        client = socket.socket(socket.AF_UNIX)
        client.connect(address[5:])
    else:
        host, port = address.rsplit(":", 1)
        client = socket.create_connection((host, int(port)), 60)
    if proxy:
        client.sendall(header + head % len(body) + body)
    return client


def link(fd):
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""  # closed meanwhile


def watched():
    """The sockets of each epoll set, by their inodes."""
    sets = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if link(fd) == "anon_inode:[eventpoll]":
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as info:
                fds = [line.split()[1] for line in info if line[:4] == "tfd:"]
            names = {link(one) for one in fds}
            sets[fd] = {name for name in names if name.startswith("socket:")}
    return sets


def wait_for(before, count):
    end = time.monotonic() + 60
    while True:
        now = watched()
        new = sorted(len(now[fd] - before[fd]) for fd in before)
        if sum(new) == count or time.monotonic() > end:
            return new
        time.sleep(0.01)


start = watched()
for total in 2, 3, 4:
    for _ in range(rounds):
        clients = [connect() for _ in range(total)]
        for one in clients if proxy else []:
            assert one.recv(65536).startswith(b"HTTP/1.1 200")
        print(total, "as", *wait_for(start, total))
        for one in clients:
            one.close()
        wait_for(start, 0)
