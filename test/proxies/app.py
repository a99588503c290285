"""An application to be protected: app.py PORT-FILE LOG

Answers any request by 200 and a line that says what came in, and writes that
line into the log; by 401 if its body is `wrong`; if `slow` is in its path, it takes its time. A websocket gets
its first frame back. Serves on
loopback, on a port of its own choice, which it writes into PORT-FILE.
"""
import base64
import hashlib
import http.server
import os
import sys
import time

GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def body(self):
        if 'chunked' not in self.headers.get('Transfer-Encoding', ''):
            return self.rfile.read(int(self.headers.get('Content-Length', 0)))
        whole = b''
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def echo(self):
        """A websocket: the first frame, which is short, comes back."""
        key = self.headers['Sec-WebSocket-Key'] + GUID
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest())
        self.send_response(101)
        self.send_header('Upgrade', 'websocket')
        self.send_header('Connection', 'Upgrade')
        self.send_header('Sec-WebSocket-Accept', accept.decode())
        self.end_headers()
        size = self.rfile.read(2)[1] & 127
        mask = self.rfile.read(4)
        word = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
        self.wfile.write(bytes([0x81, size]) + word)
        self.close_connection = True

    def answer(self):
        text = self.body().decode()
        line = f'{self.command} {self.path} {text}\n'
        with open(sys.argv[2], 'a') as log:
            log.write(line)
        if 'slow' in self.path:
            time.sleep(0.2)
        if self.headers.get('Upgrade', '').lower() == 'websocket':
            return self.echo()
        self.send_response(401 if text == 'wrong' else 200)
        self.send_header('Content-Type', 'text/plain')
        self.send_header('Access-Control-Expose-Headers', 'X-App')
        self.send_header('Content-Length', str(len(line)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(line.encode())

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), App)
server.daemon_threads = True
with open(sys.argv[1] + '.new', 'w') as file:
    file.write(str(server.server_address[1]))
os.rename(sys.argv[1] + '.new', sys.argv[1])
server.serve_forever()
