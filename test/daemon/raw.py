# raw.py -- send bytes, hear what comes until it is closed.
#
#   raw.py HOST:PORT TEXT [stay]
#
# TEXT has escapes. Ours is closed behind it, unless `stay` is said.
import socket
import sys

host, port = sys.argv[1].rsplit(":", 1)
text = sys.argv[2].encode("latin-1").decode("unicode_escape").encode("latin-1")
with socket.create_connection((host, int(port)), timeout=20) as peer:
    peer.sendall(text)
    if len(sys.argv) < 4:
        try:
            peer.shutdown(socket.SHUT_WR)
        except OSError:
            pass
    try:
        while data := peer.recv(65536):
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
    except ConnectionResetError:
        pass
