"""connections.py HOST:PORT N GO: open up to N connections and keep them until the
file GO is there. Prints how many are open once no more can be had."""
import os
import socket
import sys
import time

host, port = sys.argv[1].rsplit(":", 1)
clients = []
for _ in range(int(sys.argv[2])):
    client = socket.socket()
    client.settimeout(20)
    try:
        client.connect((host, int(port)))
    except OSError:
        break
    clients.append(client)
print("open", len(clients), flush=True)
for _ in range(30000):
    if os.path.exists(sys.argv[3]):
        break
    time.sleep(0.01)
