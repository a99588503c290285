"""servers.py -- the processes of a chaos run: daemons, PostgreSQL, Redis, and
proxies between them.

Everything is on loopback and in one temporary folder, and is stopped by its
pid."""
import http.client
import json
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

PROXY = os.path.join(os.path.dirname(__file__), "../support/proxy.py")
DAY = 86400
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
    """A network that fails, see test/support/proxy.py."""

    count = 0

    def __init__(self, folder, port):
        Proxy.count += 1
        self.control = os.path.join(folder, "proxy.%d" % Proxy.count)
        self.process = subprocess.Popen(
            [sys.executable, PROXY, "127.0.0.1:%d" % port, self.control],
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def tell(self, *words):
        """Returns when the word is in force."""
        subprocess.run([sys.executable, PROXY, "--tell", self.control, *words],
                       check=True)

    def stop(self):
        self.process.kill()
        self.process.communicate()


class Redis:
    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--dir", self.folder,
             "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--repl-diskless-sync-delay", "0"],
            stdout=subprocess.DEVNULL)
        wait_for("redis", lambda: self.run("PING") == "PONG")

    def run(self, *words):
        return subprocess.run(
            ["redis-cli", "-p", str(self.port), *words], text=True,
            capture_output=True).stdout.strip()

    def follow(self, master):
        """Becomes a replica, and returns when it has the master's data."""
        self.run("REPLICAOF", "127.0.0.1", str(master.port))
        wait_for("replica", lambda: "master_link_status:up" in
                 self.run("INFO", "replication"))

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

    def pause(self):
        """Returns the processes that were stopped."""
        with open(os.environ["POSTGRES_FOLDER"] + "/data/postmaster.pid",
                  encoding="utf-8") as file:
            first = file.readline().strip()
        others = subprocess.run(["pgrep", "-P", first], stdout=subprocess.PIPE,
                                text=True, check=False).stdout.split()
        pids = [int(pid) for pid in [first] + others]
        self.signal(pids, signal.SIGSTOP)
        return pids

    def go_on(self, pids):
        self.signal(pids, signal.SIGCONT)

    @staticmethod
    def signal(pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def psql(self, database, sql):
        return subprocess.Popen(
            ["psql", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U",
             "postgres", "-d", database, "-c", sql],
            stdout=subprocess.DEVNULL)

    def create(self, database):
        """An empty database for a run."""
        if self.psql("postgres", "CREATE DATABASE " + database).wait() != 0:
            raise SystemExit("Bail out! no database")

    def lock(self, database, which, seconds):
        """A session that locks counters for so long."""
        return self.psql(
            database, "BEGIN; SELECT FROM sluice.usage_counters WHERE %s FOR"
            " UPDATE; SELECT pg_sleep(%f); COMMIT" % (which, seconds))


class Daemon:
    """Its clock is wrong, by as much as step() says. It begins at noon of the
    15th of this month, so that steps of some days stay within the month."""

    def __init__(self, name, program, clock, folder, words):
        self.name, self.program, self.words = name, program, words
        self.preload = clock
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        self.http = self.admin = None
        self.overshoot_before = 0
        now = time.gmtime()
        self.ahead = (15 - now.tm_mday) * DAY + (12 - now.tm_hour) * 3600
        self.starts = 0
        self.clock = os.open(os.path.join(self.folder, "clock"),
                             os.O_RDWR | os.O_CREAT)
        self.step(0)
        self.start()

    def step(self, by):
        """Moves its clock by so many seconds from where it began. The daemon
        has mapped the file."""
        os.pwrite(self.clock, struct.pack("=q", self.ahead + int(by)), 0)

    def environment(self):
        return {**os.environ, "SLUICE_LISTEN_GRPC": "off",
                "SLUICE_LISTEN_RESP": "off", "LD_PRELOAD": self.preload,
                "CHAOS_CLOCK": os.path.join(self.folder, "clock"),
                "ASAN_OPTIONS": "verify_asan_link_order=0"}

    def start(self):
        self.starts += 1
        self.log = os.path.join(self.folder, "log.%d" % self.starts)
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [self.program, "--listen-http", "127.0.0.1:0",
                 "--listen-admin", "127.0.0.1:0", "--log-format", "json",
                 "--threads", "2", *self.words],
                stdout=subprocess.DEVNULL, stderr=log, cwd=self.folder,
                env=self.environment())
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
        self.overshoot_before += self.overshoot()
        self.process.kill()
        self.process.wait()

    def fill_disk(self, is_full):
        """No file can be written beyond its first byte, as on a full disk."""
        most = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE,
                         (0 if is_full else most, most))

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
        """Returns (status, text); status 0 without an answer."""
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

    def overshoot(self):
        """The units that it has used after they were freed; the count of a
        process ends with it."""
        return self.metric("sluice_quota_overshoot_units_total") or 0

    def metric(self, name):
        """None: there was no answer."""
        _, text = self.ask("GET", "/metrics", admin=True)
        for line in text.splitlines():
            if line.startswith(name + " ") or line.startswith(name + "{"):
                return float(line.rsplit(" ", 1)[1])
        return None


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
