"""slow.py HOST:PORT N GO: N connections, each with half a request; the other
half follows when the file GO is there. Prints the status of each answer and
what its Connection field says."""
import os
import socket
import sys
import time

host, port = sys.argv[1].rsplit(":", 1)
body = b'{"path":"/x","user":"slow"}'
head = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
request = head % len(body) + body

clients = []
for _ in range(int(sys.argv[2])):
    client = socket.create_connection((host, int(port)), 60)
    client.sendall(request[:-5])
    clients.append(client)
print("ready", flush=True)
for _ in range(30000):
    if os.path.exists(sys.argv[3]):
        break
    time.sleep(0.01)
for client in clients:
    answer = b""
    try:
        client.sendall(request[-5:])
        while True:
            piece = client.recv(65536)
            if not piece:
                break
            answer += piece
            if b'"body":' in answer:
                break
    except OSError as error:
        answer = str(error).encode()
    words = answer.split(b"\r\n")[0]
    close = b"\r\nConnection: close\r\n" in answer
    print(words.decode(), "close" if close else "", flush=True)
