"""storm.py HOST:PORT: one connection after the other with one request each,
from four threads, until no connection can be had. Prints how many requests
were not answered although there was a connection."""
import socket
import sys
import threading
import time

host, port = sys.argv[1].rsplit(":", 1)
body = b'{"path":"/x"}'
head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
request = head % len(body) + body
asked, lost = [0] * 4, [0] * 4
end = time.monotonic() + 120


def ask(i):
    while time.monotonic() < end:
        try:
            client = socket.create_connection((host, int(port)), 60)
        except ConnectionRefusedError:
            return
        except OSError:
            continue  # the kernel's own end of a handshake, not ours
        asked[i] += 1
        try:
            client.sendall(request)
            if not client.recv(65536).startswith(b"HTTP/1.1 200"):
                lost[i] += 1
        except OSError:
            lost[i] += 1
        client.close()


threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
for one in threads:
    one.start()
while sum(asked) < 100:
    time.sleep(0.01)
print("asking", flush=True)
for one in threads:
    one.join()
print(sum(lost), "lost of", sum(asked), flush=True)
