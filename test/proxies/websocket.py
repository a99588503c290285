"""A client of a websocket: websocket.py HOST PORT PATH ADDRESS

Connects from ADDRESS, sends one frame, and prints the status of the answer and
the word that came back.
"""
import socket
import sys

WORD = b'hello'
host, port, path, address = sys.argv[1:]
conn = socket.create_connection((host, int(port)), 30, (address, 0))
conn.sendall((f'GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n'
              'Connection: Upgrade\r\nUpgrade: websocket\r\n'
              'Sec-WebSocket-Version: 13\r\n'
              'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n').encode())
answer = conn.makefile('rb')
status = answer.readline().split()[1].decode()
while answer.readline().strip():
    pass
if status != '101':
    print(status)
    sys.exit()
conn.sendall(bytes([0x81, 0x80 | len(WORD)]) + bytes(4) + WORD)
print(status, answer.read(2 + len(WORD))[2:].decode())
