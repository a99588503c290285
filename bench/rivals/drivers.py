"""drivers.py -- libraries, each in a small program of ours: rust/, go/, java/,
js/ and embedded.c.

A driver runs on its own core and prints one line of JSON with the CPU time of
its process per decision. In the row of Redis it has 64 decisions under way, and
the CPU time of Redis is added.
"""
import json
import subprocess

import build
import procs
import servers

EMBEDDED = f"{procs.BUILD}/bench/embedded"
JAVA = ["java", "-XX:+UseSerialGC", "-Xmx3g", "-cp"]


def run(command, seconds, processors):
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=seconds * 4 + 180, check=False,
            preexec_fn=procs.pinned(processors))
    except subprocess.TimeoutExpired as late:
        raise build.Skip("slow") from late
    if done.returncode:
        raise procs.Failed(done.stderr[-500:])
    return json.loads(done.stdout.splitlines()[-1])


class Library:
    """A driver whose command ends with KEYS and SECONDS. Each turn is a new
    process, so a round to get warm would change nothing."""

    gets_warm = False

    def __init__(self, command, keys):
        self.command, self.keys = command, keys

    def measure(self, seconds):
        got = run([*self.command, str(self.keys), str(seconds)], seconds,
                  (procs.SERVER,))
        turn = {"us": got["ns"] / 1000, "decisions": got["decisions"],
                "rate": got["decisions"] / got["seconds"]}
        # A few keys say nothing of bytes per key.
        if self.keys >= 100_000:
            turn["bytes"] = got["bytes"]
        return turn


class RedisLibrary:
    """A driver that decides in Redis: PORT KEYS SECONDS BURST."""

    gets_warm = False

    def __init__(self, name, command, folder):
        self.name, self.command = name, command
        self.redis, self.port = servers.redis_server(folder, f"redis-{name}")

    def measure(self, seconds):
        before = procs.cpu_ns(self.redis)
        got = run([*self.command, str(self.port), str(servers.KEYS),
                   str(seconds), str(servers.BURST)], seconds, (procs.LOAD,))
        redis = (procs.cpu_ns(self.redis) - before) / 1000 / got["total"]
        return {"us": got["ns"] / 1000 + redis,
                "by": {self.name: got["ns"] / 1000, "redis": redis},
                "rate": got["decisions"] / got["seconds"],
                "decisions": got["decisions"]}


def sluice(keys, clock):
    return Library([EMBEDDED, clock], keys)


def rust(name, keys):
    return Library([build.rust_driver(name), name], keys)


def x_time_rate(keys):
    return Library([build.go_driver()], keys)


def java_command(kind):
    return [*JAVA, build.java_driver(), "Rivals", kind]


def js_command(kind):
    return [build.need("node"), "--expose-gc", f"{build.SOURCES}/js/rivals.js",
            build.js_modules(), kind]


def bucket4j(keys):
    return Library(java_command("memory"), keys)


def flexible(keys):
    return Library(js_command("memory"), keys)


def bucket4j_redis(folder):
    return RedisLibrary("Bucket4j", java_command("redis"), folder)


def flexible_redis(folder):
    return RedisLibrary("rate-limiter-flexible", js_command("redis"), folder)
