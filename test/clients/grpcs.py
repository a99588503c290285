"""grpcs -- our daemon, and what clients in the tests ask of its grpc door."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

import protos

PACKAGE = "envoy.service.ratelimit.v3."
SHOULD = "/" + PACKAGE + "RateLimitService/ShouldRateLimit"
HEALTH = "/grpc.health.v1.Health/"
find = protos.load("rls.proto", "health.proto")
Request = find(PACKAGE + "RateLimitRequest")
Response = find(PACKAGE + "RateLimitResponse")
HealthRequest = find("grpc.health.v1.HealthCheckRequest")
HealthResponse = find("grpc.health.v1.HealthCheckResponse")


class Tap:
    """Counts what is shown, and answers TAP."""

    def __init__(self):
        self.cases = self.failed = 0

    def check(self, name, good, note=""):
        self.cases += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.cases} - {name}")
        if not good and note:
            print("# " + str(note).replace("\n", "\n# "))
        sys.stdout.flush()

    def same(self, name, got, want):
        self.check(name, got == want, f"got  {got!r}\nwant {want!r}")

    def done(self):
        print(f"1..{self.cases}")
        return 1 if self.failed or not self.cases else 0


class Daemon:
    """sluiced-test on a virtual clock, with doors on free ports."""

    def __init__(self, program, policy, *flags, virtual=True):
        """The policy is its text, or its path; or files, by name, of another
        program."""
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-")
        files = policy if isinstance(policy, dict) else {"p.yaml": policy}
        for name, text in files.items():
            self.write(name, text)
        read = ["-c", os.path.join(self.folder.name, "p.yaml")]
        if isinstance(policy, str) and os.path.exists(policy):
            read = ["-c", policy]
        if isinstance(policy, dict):
            read = ["--compat", "envoy-ratelimit", "--config-dir",
                    self.folder.name]
        clock = ["--clock=virtual"] if virtual else []
        self.process = subprocess.Popen(
            [program, *read, *clock, "--store", "memory:",
             "--threads", "1", "--listen-http", "127.0.0.1:0",
             "--listen-admin", "127.0.0.1:0", "--listen-grpc", "127.0.0.1:0",
             "--listen-resp", "off", "--log-format", "json", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        atexit.register(self.kill)
        self.doors = {}
        for line in self.process.stderr:
            if line.startswith("{") and '"serving"' in line:
                self.doors = json.loads(line)
                break
        if not self.doors:
            raise SystemExit("Bail out! the daemon does not start")

    def write(self, name, text):
        """Put a file into its folder, at once as a whole."""
        path = os.path.join(self.folder.name, name)
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(path + ".tmp", path)

    @property
    def grpc(self):
        return self.doors["grpc"]

    def tell(self, path, body=None, method=None):
        """What the admin listener answers."""
        request = urllib.request.Request(
            f"http://{self.doors['admin']}{path}",
            data=body.encode() if body is not None else None, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    def at(self, moment):
        self.tell("/v1/clock", json.dumps({"now": moment}), "POST")

    def alive(self):
        return self.process.poll() is None

    def cpu(self):
        """Seconds of processor time that it has used."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self):
        """A test that fails leaves nothing behind."""
        if self.alive():
            self.process.kill()
            self.process.wait()

    def stop(self):
        """Its exit status."""
        if self.alive():
            self.process.terminate()
        status = self.process.wait(timeout=60)
        self.process.stderr.close()
        self.folder.cleanup()
        return status


def until(what, seconds=60.0):
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def request(domain, *descriptors, hits=0):
    """Descriptors are dicts, or lists of pairs where a key comes twice; what
    begins with a dash says something about the descriptor: -hits, -limit,
    -negative."""
    made = Request(domain=domain, hits_addend=hits)
    for pairs in descriptors:
        one = made.descriptors.add()
        pairs = pairs.items() if isinstance(pairs, dict) else pairs
        for key, value in pairs:
            if key == "-hits":
                one.hits_addend.value = value
            elif key == "-limit":
                one.limit.requests_per_unit, one.limit.unit = value
            elif key == "-negative":
                one.is_negative_hits = value
            else:
                one.entries.add(key=key, value=value)
    return made


def short(response):
    """An answer in a few words: "OK api:4/MINUTE=3 -" """
    words = [Response.Code.Name(response.overall_code)]
    for status in response.statuses:
        limit = status.current_limit
        word = "!" if status.code == 2 else ""
        if status.HasField("current_limit"):
            unit = type(limit).Unit.Name(limit.unit)
            word += (f"{limit.name}:{limit.requests_per_unit}/{unit}="
                     f"{status.limit_remaining}")
        elif status.limit_remaining:
            word += f"left={status.limit_remaining}"
        words.append(word or "-")
    return " ".join(words)


def headers(response):
    return {h.key: h.value for h in response.response_headers_to_add}
