"""servers -- the processes that the requirements are looked at with: sluiced on
the virtual clock, a Redis, a DynamoDB, a proxy, and an application behind it."""

import contextlib
import glob
import http.client
import io
import json
import os
import random
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
NOON = "2026-02-26T12:00:00Z"
RUNNING = []
SLUICED, SLUICED_TEST, SLUICE = (sys.argv[1:4] + 3 * [None])[:3]
FOLDER = tempfile.mkdtemp(prefix="sluice-requirements-", dir="/tmp")
PATH = os.environ["PATH"] + ":/usr/sbin"
MODULES = os.environ.get("SLUICE_NODE_MODULES",
                         os.path.join(ROOT, "build/node_modules"))


def run(*words, **options):
    """Start a program that is stopped at the end."""
    process = subprocess.Popen(words, **options)
    RUNNING.append(process)
    return process


def end(process, by="terminate"):
    getattr(process, by)()
    process.wait()


def stop_all():
    for process in reversed(RUNNING):
        if process.poll() is None:
            process.terminate()
    for process in RUNNING:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    shutil.rmtree(FOLDER, ignore_errors=True)


def until(what, seconds=60.0):
    """Wait for something that another process does."""
    finish = time.monotonic() + seconds
    while not what():
        if time.monotonic() > finish:
            raise TimeoutError(f"no {what.__name__} in {seconds} s")
        time.sleep(0.01)


def answers(port):
    """Is there a listener at that port of loopback?"""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    """Below the ports of connections, which would take one that is free now."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Answer:
    """Of a web server: status, headers by their names in small letters, body."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.text = response.read().decode()

    def __getitem__(self, name):
        return self.headers.get(name.lower())

    @property
    def json(self):
        return json.loads(self.text)


class Web:
    """A connection that is kept."""

    def __init__(self, where, address=None):
        host, _, port = where.rpartition(":")
        self.server = http.client.HTTPConnection(
            host, int(port), timeout=60,
            source_address=(address, 0) if address else None)

    def ask(self, method, path, body=None, headers=None):
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        try:
            self.server.request(method, path, body, headers or {})
            return Answer(self.server.getresponse())
        except (http.client.RemoteDisconnected, ConnectionError):
            self.server.close()
            self.server.request(method, path, body, headers or {})
            return Answer(self.server.getresponse())


class Resp:
    """A client of the Redis protocol: of Redis, and of sluiced."""

    def __init__(self, where):
        if where.startswith("/"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(where)
        else:
            host, _, port = where.rpartition(":")
            self.socket = socket.create_connection((host, int(port)))
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        words = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.read()

    def read(self):
        line = self.file.readline().rstrip(b"\r\n").decode()
        kind, rest = line[0], line[1:]
        if kind == "$":
            if rest == "-1":
                return None
            return self.file.read(int(rest) + 2)[:-2].decode()
        if kind in "*%":
            return [self.read()
                    for _ in range(int(rest) * (2 if kind == "%" else 1))]
        return int(rest) if kind == ":" else line if kind == "-" else rest


class Redis:
    """A Redis of the test's own, on a unix socket."""

    def __init__(self, name="redis.sock"):
        self.socket = os.path.join(FOLDER, name)
        self.url = "redis+unix://" + self.socket
        self.start()

    def start(self):
        self.process = run("redis-server", "--port", "0", "--unixsocket",
                           self.socket, "--save", "", "--dir", FOLDER,
                           stdout=subprocess.DEVNULL)
        until(self.up)
        self.ask = Resp(self.socket)

    def up(self):
        try:
            return Resp(self.socket)("PING") == "PONG"
        except OSError:
            return False

    def kill(self):
        end(self.process, "kill")
        os.unlink(self.socket)

    def calls(self, command):
        """How often a command was called since CONFIG RESETSTAT."""
        for row in self.ask("INFO", "commandstats").split("\r\n"):
            if row.startswith(f"cmdstat_{command}:calls="):
                return int(row.partition("=")[2].partition(",")[0])
        return 0

    def keys(self):
        """Those that limits have made."""
        return sorted(key for key in self.ask("KEYS", "*") if not re.search(
            r"^sluice:(secret|epoch)$|^sluice:repeat:|#nodes$", key))


class Dynamo:
    """Dynalite of npm behind test/dynamo/dynamo.js, which adds transactions."""

    TABLE = "jobseek-users"

    def __init__(self, *flags):
        os.environ.update(AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="secret")
        self.process = run(
            "node", os.path.join(ROOT, "test/dynamo/dynamo.js"), "--stay",
            *flags, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())
        self.url = (f"dynamodb://eu-west-1/{self.TABLE}"
                    f"?endpoint=http://127.0.0.1:{self.port}")

    def ask(self, operation, body):
        """By the script that signs requests, in this process."""
        words, out = sys.argv, io.StringIO()
        sys.argv = ["signed.py", f"http://127.0.0.1:{self.port}", operation,
                    json.dumps({"TableName": self.TABLE, **body})]
        try:
            with contextlib.redirect_stdout(out):
                runpy.run_path(os.path.join(ROOT, "test/dynamo/signed.py"))
        finally:
            sys.argv = words
        return json.loads(out.getvalue())

    def rows(self):
        """{(partition, sort): its other attributes} of limits and users."""
        found = {}
        for item in self.ask("Scan", {"ConsistentRead": True})["Items"]:
            plain = {k: list(v.values())[0] for k, v in item.items()}
            name = plain.pop("userId"), plain.pop("dataType")
            if not re.search(r"^sluice:[a-z]+$|#nodes$", name[0]):
                found[name] = plain
        return found

    def counts(self):
        """How many requests of each operation it had since the last call."""
        return Web(f"127.0.0.1:{self.port}").ask(
            "POST", "/_shim", "{}").json["by"]

    def put(self, **item):
        self.ask("PutItem", {"Item": {k: {"S": v} for k, v in item.items()}})


class Daemon:
    """sluiced with a preset as it is shipped, on the virtual clock. FOLDER in a
    flag is the daemon's own, with a copy of all presets."""

    made = 0

    def __init__(self, preset, *flags, virtual=True, program=None, **env):
        Daemon.made += 1
        self.folder = os.path.join(FOLDER, f"daemon{Daemon.made}")
        shutil.copytree(os.path.join(ROOT, "presets"), self.folder)
        self.policy = os.path.join(self.folder, preset)
        self.words = [program or (SLUICED_TEST if virtual else SLUICED),
                      "-c", self.policy, "--log-format", "json",
                      "--threads", "1", "--deadline", "5s",
                      "--listen-http", "127.0.0.1:0",
                      "--listen-admin", "127.0.0.1:0",
                      "--listen-resp", "127.0.0.1:0",
                      "--listen-grpc", "127.0.0.1:0",
                      *(["--clock=virtual"] if virtual else []),
                      *(flag.replace("FOLDER", self.folder) for flag in flags)]
        self.env = dict(os.environ, **env)
        self.virtual = virtual
        self.process = None

    def start(self, now=NOON):
        self.log = os.path.join(self.folder, "log")
        with open(self.log, "a", encoding="utf-8") as log:
            mark = log.tell()
            self.process = run(*self.words, stdout=subprocess.DEVNULL,
                               stderr=log, env=self.env)
        until(lambda: self.serving(mark) or self.process.poll() is not None)
        doors = self.serving(mark)
        if not doors:
            with open(self.log, encoding="utf-8") as log:
                raise RuntimeError("sluiced does not start: " + log.read())
        self.http, self.where = Web(doors["http"]), doors["http"]
        self.admin, self.admin_where = Web(doors["admin"]), doors["admin"]
        self.resp, self.grpc = Resp(doors["resp"]), doors["grpc"]
        until(self.ready)
        if self.virtual:
            self.at(now)
        return self

    def serving(self, mark):
        with open(self.log, encoding="utf-8") as log:
            log.seek(mark)
            for line in log:
                if line.startswith("{") and '"event":"serving"' in line:
                    return json.loads(line)
        return None

    def ready(self):
        return self.admin.ask("GET", "/readyz").text.strip() == "ok"

    def said(self, text):
        with open(self.log, encoding="utf-8") as log:
            return text in log.read()

    def stop(self, by="terminate"):
        end(self.process, by)

    # ---- time and state ----

    def fresh(self, now=NOON):
        """Empty, at that time."""
        self.must(self.admin.ask("POST", "/v1/clock?forget=true", {"now": now}))

    def at(self, now):
        self.must(self.admin.ask("POST", "/v1/clock", {"now": now}))

    @staticmethod
    def must(answer):
        if answer.status >= 300:
            raise RuntimeError(f"{answer.status} {answer.text}")
        return answer

    # ---- requests ----

    def check(self, path="", **members):
        """The verdict of one check."""
        if path:
            method, _, path = path.rpartition(" ")
            members.update(path=path, method=method or "GET")
        return self.must(self.http.ask("POST", "/v1/check", members)).json

    def checks(self, count, path="", **members):
        """The verdicts of as many equal ones, asked together."""
        if path:
            method, _, path = path.rpartition(" ")
            members.update(path=path, method=method or "GET")
        found = []
        while count > 0:
            some = min(count, 1000)
            found += self.must(self.http.ask(
                "POST", "/v1/check", some * [members])).json
            count -= some
        return found

    def burst(self, count, path="", **members):
        """How many of equal checks pass, in words."""
        return told(self.checks(count, path, **members))

    def auth(self, path, headers=None, body=None, **more):
        """Forward-auth, as a proxy asks it."""
        method, _, path = path.rpartition(" ")
        return self.http.ask(
            "POST" if body else "GET", "/v1/auth", body,
            {"X-Original-URI": path, "X-Original-Method": method or "GET",
             **(headers or {}), **more})

    def left(self, limit, key, **members):
        """What one limit has left, without taking."""
        return self.check(limit=limit, key=key, cost=0,
                          **members)["limits"][0]["remaining"]

    def subject(self, scope, name, **members):
        self.must(self.admin.ask("PUT", f"/v1/subjects/{scope}/{name}", members))

    def metric(self, sample):
        """Its value."""
        for line in self.admin.ask("GET", "/metrics").text.split("\n"):
            if line.startswith(sample + " "):
                return int(float(line.rpartition(" ")[2]))
        raise KeyError(sample)

    def cli(self, *words):
        """The command line tool, asking this daemon: its status and output."""
        made = subprocess.run(
            [SLUICE, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False, env=dict(
                os.environ, SLUICE_URL="http://" + self.where,
                SLUICE_ADMIN_URL="http://" + self.admin_where, NO_COLOR="1"))
        return made.returncode, made.stdout


def clock_by(seconds):
    """The environment of a program whose clock is ahead or behind."""
    library = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")[0]
    return {"LD_PRELOAD": library, "FAKETIME": f"{seconds:+}s",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "ASAN_OPTIONS": "verify_asan_link_order=0"}


def told(verdicts):
    """8 pass, then 429 by ai-minute."""
    passed = [v["allowed"] for v in verdicts]
    count = passed.count(True)
    if count == len(passed):
        return f"{count} pass"
    denied = next(v for v in verdicts if not v["allowed"])
    if passed != sorted(passed, reverse=True):
        return f"{count} of {len(passed)} pass"
    by = f" by {denied['by']}" if denied["by"] else ""
    return f"{count} pass, then {denied['status']}{by}"


def numbers(verdict, limit=None):
    """limit, remaining of a verdict: of the limit that is named, or reported."""
    if limit:
        part = next(p for p in verdict["limits"] if p["name"] == limit)
        return part["limit"], part["remaining"]
    head = verdict["headers"]
    return (int(head["X-RateLimit-Limit"]), int(head["X-RateLimit-Remaining"]))


def signer(folder, **head):
    """Replaces the sample key of a folder; returns what signs claims."""
    # Debian's Python has both.
    import jwt  # pylint: disable=import-outside-toplevel
    from cryptography.hazmat.primitives.asymmetric import rsa  # pylint: disable=import-outside-toplevel
    key = rsa.generate_private_key(65537, 2048)
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    public.update(kid="test", alg="RS256", use="sig")
    with open(os.path.join(folder, "jwks.json"), "w", encoding="ascii") as file:
        json.dump({"keys": [public]}, file)

    def sign(**claims):
        return jwt.encode({"exp": 4000000000, **head, **claims}, key, "RS256",
                          {"kid": "test"})
    return sign


# ---- proxies ----

class Proxy:
    """A real proxy by its recipe in docs/guide/proxies.md, before an
    application; `headers` of a client are passed on to sluiced."""

    FAMILY = {"nginx": "original", "caddy": "forwarded", "haproxy": "forwarded"}

    def __init__(self, kind, daemon, *headers):
        self.kind, self.daemon, self.headers = kind, daemon, headers
        self.folder = os.path.join(FOLDER, kind)
        os.makedirs(self.folder)
        self.app_log = os.path.join(self.folder, "app.log")
        port = os.path.join(self.folder, "app.port")
        with open(os.path.join(self.folder, "app.err"), "w",
                  encoding="utf-8") as err:
            run(sys.executable, os.path.join(ROOT, "test/proxies/app.py"), port,
                self.app_log, stderr=err)
        until(lambda: os.path.exists(port))
        with open(port, encoding="ascii") as file:
            self.app = "127.0.0.1:" + file.read()
        self.port = free_port()
        self.site = f"127.0.0.1:{self.port}"
        words = getattr(self, kind)()
        with open(os.path.join(self.folder, "log"), "w",
                  encoding="utf-8") as log:
            self.process = run(*words, stdout=log, stderr=log, env=dict(
                os.environ, PATH=PATH, HOME=self.folder,
                XDG_DATA_HOME=self.folder, XDG_CONFIG_HOME=self.folder))
        until(lambda: answers(self.port) or self.process.poll() is not None)
        self.web = Web(self.site)

    def block(self, name):
        """A block of the guide with the ports of this test."""
        with open(os.path.join(ROOT, "docs/guide/proxies.md"),
                  encoding="utf-8") as file:
            for found in re.findall(r"```\w*\n(.*?)```", file.read(), re.S):
                if re.match(rf"(#|--) {re.escape(name)}\n", found):
                    break
        return (found.replace("127.0.0.1:8080", self.daemon.where)
                .replace("127.0.0.1:3000", self.app)
                .replace("500ms", "3s").replace("timeout = 2000", "timeout = 9000"))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def nginx(self):
        self.write("snippets/sluice.conf",
                   self.block("/etc/nginx/snippets/sluice.conf"))
        more = "".join(
            f"        proxy_set_header {name} $http_"
            f"{name.lower().replace('-', '_')};\n" for name in self.headers)
        mark = "        proxy_set_header X-Original-URI"
        site = self.block("/etc/nginx/conf.d/site.conf").replace(
            "listen 80;", f"listen {self.site};").replace(
            "/var/cache/nginx/", self.folder + "/").replace(mark, more + mark)
        user = "user root;\n" if os.geteuid() == 0 else ""
        temp = "".join(f"{name}_temp_path {self.folder}/{name};\n" for name in (
            "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = self.write("nginx.conf", (
            f"{user}worker_processes 1;\ndaemon off;\npid {self.folder}/pid;\n"
            f"error_log {self.folder}/error.log;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{temp}{site}}}\n"))
        return ["nginx", "-p", self.folder, "-e", self.folder + "/error.log",
                "-c", config]

    def caddy(self):
        text = self.block("/etc/caddy/Caddyfile").replace(
            ":80 {", f"http://{self.site} {{").replace(
            "{\n", "{\n    admin off\n", 1)
        return ["caddy", "run", "--config", self.write("Caddyfile", text),
                "--adapter", "caddyfile"]

    def haproxy(self):
        more = "".join(
            f'            ["{name.lower()}"] = '
            f'{{txn.sf:req_fhdr("{name}") or ""}},\n' for name in self.headers)
        mark = '            ["x-forwarded-uri"]'
        name = f"abns@sluice-ask-{self.port}"
        self.write("sluice.lua", self.block("/etc/haproxy/sluice.lua").replace(
            mark, more + mark).replace("abns@sluice-ask", name))
        config = self.write("haproxy.cfg", self.block(
            "/etc/haproxy/haproxy.cfg").replace(
            "/etc/haproxy", self.folder).replace(
            "bind :80", f"bind {self.site}").replace("abns@sluice-ask", name))
        return ["haproxy", "-db", "-f", config]

    def ask(self, path, headers=None, body=None):
        method, _, path = path.rpartition(" ")
        return self.web.ask(method or "GET", path, body, headers)

    def seen(self):
        """How many requests the application has had."""
        if not os.path.exists(self.app_log):
            return 0
        with open(self.app_log, encoding="utf-8") as log:
            return len(log.readlines())
