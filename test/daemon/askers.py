"""askers.py HOST:PORT HOW [N [GO]]: ask for a user's allowance, and count.

  until-denied N   N connections ask until they are denied or there is no answer
  until-killed N PID   the same, and when a hundred were allowed PID is killed
  until-denied N GO    the same; after half of 20,000 they wait for the file GO
  until GO         one connection after the other, one request each, until the
                   file GO is there
  held N GO        N connections that were served once are served again when
                   the file GO is there

Prints: allowed A denied D unanswered U slowest MS
"""
import os
import signal
import socket
import sys
import threading
import time

host, port = sys.argv[1].rsplit(":", 1)
how = sys.argv[2]
body = b'{"path":"/x","user":"ann"}'
head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
request = head % len(body) + body
lock = threading.Lock()
counts = {"allowed": 0, "denied": 0, "unanswered": 0, "slowest": 0}


def connect():
    return socket.create_connection((host, int(port)), 60)


def read_answer(client):
    text = b""
    while True:
        top, end, rest = text.partition(b"\r\n\r\n")
        if end:
            size = int(top.lower().split(b"content-length:")[1].split()[0])
            if len(rest) >= size:
                return text
        piece = client.recv(65536)
        if not piece:
            raise OSError("closed")
        text += piece


def ask(client):
    """One request. What came of it is counted and told."""
    began = time.monotonic()
    try:
        client.sendall(request)
        text = read_answer(client)
        word = "allowed" if b'{"allowed":true' in text else "denied"
        if not text.startswith(b"HTTP/1.1 200"):
            word = "unanswered"
    except OSError:
        word = "unanswered"
    took = int((time.monotonic() - began) * 1000)
    with lock:
        counts[word] += 1
        counts["slowest"] = max(counts["slowest"], took)
        if how == "until-killed" and word == "allowed" and counts[word] == 100:
            os.kill(int(sys.argv[4]), signal.SIGKILL)
    if how == "until-denied" and len(sys.argv) > 4 and counts["allowed"] > 10000:
        wait_for(sys.argv[4])
    return word


def ask_until_denied():
    try:
        client = connect()
    except OSError:
        return
    while ask(client) == "allowed":
        pass
    client.close()


def wait_for(path):
    for _ in range(30000):
        if os.path.exists(path):
            return
        time.sleep(0.01)


if how in ("until-denied", "until-killed"):
    threads = [threading.Thread(target=ask_until_denied)
               for _ in range(int(sys.argv[3]))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
elif how == "until":
    while not os.path.exists(sys.argv[3]):
        client = connect()
        ask(client)
        client.close()
elif how == "held":
    clients = [connect() for _ in range(int(sys.argv[3]))]
    for client in clients:
        ask(client)
    print("held", flush=True)
    wait_for(sys.argv[4])
    for client in clients:
        ask(client)
print(" ".join("%s %d" % pair for pair in counts.items()), flush=True)
