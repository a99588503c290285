"""servers.py -- the processes of a chaos run: daemons, PostgreSQL, Redis, and a
proxy between them that can cut a network without closing a connection.

Everything is on loopback and in one temporary folder, and is stopped by its
pid."""
import http.client
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

PATIENCE = 120  # seconds: far more than anything here takes on a busy machine


def wait_for(what, condition, patience=PATIENCE):
    """Wait until condition() is true. A busy machine may take long."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    print("# waited in vain:", what, flush=True)
    return False


def free_port():
    while True:
        port = random.SystemRandom().randrange(10000, 32000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Proxy:
    """Forwards connections to a port. cut() drops what is sent in both
    directions and keeps the sockets; swallow() drops replies only; drop()
    closes all connections."""

    def __init__(self, target):
        self.target = target
        self.pairs = set()
        self.silent = self.mute = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,),
                             daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        pair = (client, server)
        self.pairs.add(pair)
        lost = False  # bytes are gone: nothing may follow them
        try:
            while True:
                ready, _, _ = select.select(pair, [], [], 0.2)
                for one in ready:
                    data = one.recv(65536)
                    lost = lost or self.silent or \
                        (self.mute and one is server)
                    if not data and not lost:
                        return
                    if not lost:
                        (server if one is client else client).sendall(data)
                    elif not data:
                        time.sleep(0.2)
                if lost and not self.silent and not self.mute:
                    self.linger(pair)
                    return
        except OSError:
            pass
        finally:
            self.pairs.discard(pair)
            client.close()
            server.close()

    def linger(self, pair):
        """The network is back, but bytes of this connection are lost: real
        hosts would go on sending and time out. It stays open and silent."""
        while pair in self.pairs:
            ready, _, _ = select.select(pair, [], [], 0.2)
            for one in ready:
                if not one.recv(65536):
                    return

    def cut(self):
        self.silent = True

    def swallow(self):
        self.mute = True

    def heal(self):
        self.silent = self.mute = False

    def drop(self):
        for pair in list(self.pairs):
            for one in pair:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Redis:
    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--dir", self.folder,
             "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL)
        wait_for("redis", lambda: self.run("PING") == "PONG")

    def run(self, *words):
        return subprocess.run(
            ["redis-cli", "-p", str(self.port), *words], text=True,
            capture_output=True).stdout.strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    stop = kill


class Postgres:
    """The server that with-postgres.sh has started; its control program is in
    the environment."""

    def __init__(self):
        self.port = int(os.environ["POSTGRES_PORT"])
        self.ctl = os.environ["POSTGRES_CTL"]

    def run(self, what):
        subprocess.run([self.ctl, what], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)

    def kill(self):
        self.run("kill")

    def start(self):
        self.run("start")

    def create(self, database):
        """An empty database for a run."""
        subprocess.run(
            ["psql", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U",
             "postgres", "-d", "postgres", "-c", "CREATE DATABASE " + database],
            check=True)


class Daemon:
    def __init__(self, name, program, folder, words):
        self.name, self.program, self.words = name, program, words
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        self.http = self.admin = None
        self.stopped = False
        self.starts = 0
        self.start()

    def start(self):
        self.starts += 1
        self.log = os.path.join(self.folder, "log.%d" % self.starts)
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [self.program, "--listen-http", "127.0.0.1:0",
                 "--listen-admin", "127.0.0.1:0", "--log-format", "json",
                 "--threads", "2", *self.words],
                stdout=subprocess.DEVNULL, stderr=log, cwd=self.folder,
                env={**os.environ, "SLUICE_LISTEN_GRPC": "off",
                     "SLUICE_LISTEN_RESP": "off"})
        if not wait_for("daemon " + self.name, self.is_serving):
            raise SystemExit("Bail out! no daemon: " + self.said()[-2000:])

    def said(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def is_serving(self):
        if self.process.poll() is not None:
            raise SystemExit("Bail out! daemon ended: " + self.said()[-2000:])
        for line in self.said().splitlines():
            if '"event":"serving"' in line:
                event = json.loads(line)
                self.http, self.admin = event["http"], event["admin"]
                return True
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process.poll() is None:
            self.go_on()
            self.process.terminate()
            try:
                return self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def ask(self, method, path, body=None, admin=False, patience=15):
        """Returns (status, text); (0, "") without an answer."""
        address = self.admin if admin else self.http
        try:
            client = http.client.HTTPConnection(address, timeout=patience)
            client.request(method, path,
                           None if body is None else json.dumps(body))
            answer = client.getresponse()
            text = answer.read().decode()
            client.close()
            return answer.status, text
        except (OSError, http.client.HTTPException):
            return 0, ""

    def metric(self, name):
        _, text = self.ask("GET", "/metrics", admin=True)
        for line in text.splitlines():
            if line.startswith(name + " ") or line.startswith(name + "{"):
                return float(line.rsplit(" ", 1)[1])
        return None


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
