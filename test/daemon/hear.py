"""hear.py NAME FILE: what is sent to the socket NAME (a path, or @abstract) is
written to FILE, messages parted by a line of dashes."""
import socket
import sys

name = sys.argv[1]
hearing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
hearing.bind("\0" + name[1:] if name[0] == "@" else name)
hearing.settimeout(600)
with open(sys.argv[2], "w") as out:
    print("hearing", file=out, flush=True)
    while True:
        print(hearing.recv(65536).decode() + "\n--", file=out, flush=True)
