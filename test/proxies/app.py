"""An application to be protected: app.py PORT-FILE LOG

Answers any request by 200 and a line that says what came in, and writes that
line into the log; if `slow` is in its path, it takes its time. Serves on
loopback, on a port of its own choice, which it writes into PORT-FILE.
"""
import http.server
import os
import sys
import time


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

    def answer(self):
        text = self.body().decode()
        line = f'{self.command} {self.path} {text}\n'
        with open(sys.argv[2], 'a') as log:
            log.write(line)
        if 'slow' in self.path:
            time.sleep(0.2)
        self.send_response(200)
        self.send_header('Content-Type', 'text/plain')
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
