"""hand.py NAMES COMMAND...: run COMMAND with a listening socket for each of
NAMES (parted by colons), handed over as systemd does."""
import os
import socket
import sys

names = sys.argv[1].split(":")
sockets = []
for _ in names:
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.listen(16)
    sockets.append(one)
copies = [os.dup(one.fileno()) for one in sockets]
high = [os.dup2(one, 40 + i) for i, one in enumerate(copies)]
for i, one in enumerate(high):
    os.dup2(one, 3 + i, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(names)),
                  LISTEN_FDNAMES=sys.argv[1])
os.execv(sys.argv[2], sys.argv[2:])
