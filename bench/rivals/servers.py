"""servers.py -- each server, started as its own documentation says, on one
core, and asked for one decision per request.

A function starts a server in a folder and returns an Entrant, or raises Skip or
Failed. Each protocol has the same keys for every server.
"""
import os
import subprocess

import build
import messages
import procs

KEYS = 100_000
REFILL = 10_000  # a day
BURST = 1_000_000
ADMITS_JSON = '"allowed":true'
ADMITS_RPC = "\x08\x01"
RLS = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

POLICY = """\
sluice: 1
limits:
  per-user: { kind: token-bucket, per: user, rate: 10k/day burst %d }
routes:
  - { match: GET /api/v1/things, limits: [per-user] }
  - { job: edge, limits: [per-user] }
default: [per-user]
"""

# In Redis: a decision that Redis does not make in time is denied, and so seen.
REDIS_POLICY = POLICY.replace("burst %d", "burst %d, on_store_failure: deny")
REDIS_FLAGS = ("--deadline", "10s")

# A token bucket as people write it in Lua.
LUA = """\
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local v = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(v[1]) or tonumber(ARGV[1])
local at = tonumber(v[2]) or now
tokens = math.min(ARGV[1], tokens + (now - at) * ARGV[2] / 1000)
local ok = tokens >= 1
if ok then tokens = tokens - 1 end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], 86400000)
return { ok and 1 or 0, math.floor(tokens) }
"""


class Entrant:
    """A server under load. `pids` names the processes whose CPU counts."""

    gets_warm = True

    def __init__(self, pids, protocol, port, requests_file, **load):
        self.pids, self.protocol, self.port = pids, protocol, port
        self.requests_file, self.load = requests_file, load

    def measure(self, seconds):
        before = {name: procs.cpu_ns(pid) for name, pid in self.pids.items()}
        result = procs.load(self.protocol, self.port, self.requests_file,
                            seconds=seconds, **self.load)
        spent = {name: procs.cpu_ns(pid) - before[name]
                 for name, pid in self.pids.items()}
        count = result["requests"]
        return {
            "us": sum(spent.values()) / 1000 / count,
            "by": {name: ns / 1000 / count for name, ns in spent.items()},
            "rate": count / result["seconds"],
            "busy": sum(spent.values()) / 1e9 / result["seconds"],
            "p99_us": result["p99_us"],
            "admitted": result["admitted"], "decisions": count,
        }


def once(folder, name, items):
    """The file of these requests; written by the first who asks."""
    path = f"{folder.path}/{name}"
    if not os.path.exists(path):
        folder.requests(name, items())
    return path


def redis_server(folder, name, *options, env=None):
    port = procs.free_port()
    pid = folder.start(
        name, [build.need("redis-server"), "--port", str(port), "--bind",
               "127.0.0.1", "--save", "", "--appendonly", "no", *options],
        port, env=env)
    return pid, port


# ---- the Redis protocol ----

def throttle_requests(folder, command="CL.THROTTLE"):
    return once(folder, command, lambda: (
        messages.resp(command, key, BURST - 1, REFILL, messages.DAY, 1)
        for key in messages.keys(KEYS)))


def sluice_resp(folder, depth):
    pid, at = folder.sluiced("sluiced-resp", POLICY % BURST, ports=("resp",))
    return Entrant({"sluiced": pid}, "resp", at["resp"],
                   throttle_requests(folder), depth=depth, connections=32)


def throttlecrab_resp(folder, depth):
    port = procs.free_port()
    pid = folder.start("throttlecrab-resp", [
        build.throttlecrab(), "--redis", "--redis-host", "127.0.0.1",
        "--redis-port", str(port), "--log-level", "error"], port)
    return Entrant({"throttlecrab": pid}, "resp", port,
                   throttle_requests(folder, "THROTTLE"), depth=depth,
                   connections=32)


def redis_cell(folder, depth):
    module = build.redis_cell()
    libraries = subprocess.run(
        ["rustc", "--print", "target-libdir"], check=True,
        capture_output=True, text=True).stdout.strip()
    pid, port = redis_server(folder, "redis-cell", "--loadmodule", module,
                             env={"LD_LIBRARY_PATH": libraries})
    return Entrant({"redis": pid}, "resp", port, throttle_requests(folder),
                   depth=depth, connections=32)


def redis_incr(folder, depth):
    pid, port = redis_server(folder, "redis-incr")
    path = once(folder, "incr", lambda: (
        messages.resp("INCR", key) for key in messages.keys(KEYS)))
    return Entrant({"redis": pid}, "resp", port, path, depth=depth,
                   connections=32)


def redis_lua(folder, depth):
    pid, port = redis_server(folder, "redis-lua")
    sha = subprocess.run(
        [build.need("redis-cli"), "-p", str(port), "script", "load", LUA],
        check=True, capture_output=True, text=True).stdout.strip()
    path = once(folder, "lua", lambda: (
        messages.resp("EVALSHA", sha, 1, key, BURST, REFILL / messages.DAY)
        for key in messages.keys(KEYS)))
    return Entrant({"redis": pid}, "resp", port, path, depth=depth,
                   connections=32)


# ---- HTTP ----

def sluice_check(folder):
    pid, at = folder.sluiced("sluiced-check", POLICY % BURST)
    path = once(folder, "check", lambda: (
        messages.post("/v1/check", {"method": "GET", "path": "/api/v1/things",
                                    "user": key})
        for key in messages.keys(KEYS)))
    return Entrant({"sluiced": pid}, "http", at["http"], path,
                   admits=ADMITS_JSON)


def sluice_auth(folder):
    policy = POLICY % BURST + "identity: { user: [header.x-user-id] }\n"
    pid, at = folder.sluiced("sluiced-auth", policy, "--forward-auth",
                             "original")
    path = once(folder, "auth", lambda: (
        messages.get("/v1/auth", "X-Original-Method: GET",
                     "X-Original-URI: /api/v1/things", f"X-User-Id: {key}")
        for key in messages.keys(KEYS)))
    return Entrant({"sluiced": pid}, "http", at["http"], path,
                   admits="HTTP/1.1 200")


def throttlecrab_http(folder):
    port = procs.free_port()
    pid = folder.start("throttlecrab-http", [
        build.throttlecrab(), "--http", "--http-host", "127.0.0.1",
        "--http-port", str(port), "--log-level", "error"], port)
    path = once(folder, "throttle", lambda: (
        messages.post("/throttle", {"key": key, "max_burst": BURST,
                                    "count_per_period": REFILL,
                                    "period": messages.DAY})
        for key in messages.keys(KEYS)))
    return Entrant({"throttlecrab": pid}, "http", port, path,
                   admits=ADMITS_JSON)


NGINX = """\
limit_req_zone $arg_k zone=req:64m rate=1r/m;
    server {
        listen 127.0.0.1:%(port)d;
        location = /none { empty_gif; }
        location = /limited { limit_req zone=req burst=1000000 nodelay;
                              empty_gif; }
    }"""


def by_query(folder, path):
    return once(folder, f"query{path.replace('/', '-')}", lambda: (
        messages.get(f"{path}?k={key}") for key in messages.keys(KEYS)))


def nginx(folder, path):
    worker, port = folder.nginx(f"nginx{path.replace('/', '-')}", NGINX,
                                program=build.need("nginx"))
    return Entrant({"nginx": worker}, "http", port, by_query(folder, path),
                   admits="HTTP/1.1 200")


HAPROXY = """\
global
    nbthread 1
    maxconn 1024
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 5s
frontend bench
    bind 127.0.0.1:%(port)d
    %(rules)s
    http-request return status 200
"""

STICK = """\
stick-table type string len 32 size 1m expire 1d store http_req_rate(1d)
    http-request track-sc0 url_param(k)
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000 }
"""


def haproxy(folder, rules, path):
    program, port = build.need("haproxy"), procs.free_port()
    name = f"haproxy{path.replace('/', '-')}"
    conf = folder.write(f"{name}.cfg", HAPROXY % {"port": port,
                                                  "rules": rules.strip()})
    pid = folder.start(name, [program, "-db", "-f", conf], port)
    return Entrant({"haproxy": pid}, "http", port, by_query(folder, path),
                   admits="HTTP/1.1 200")


# ---- envoyproxy/ratelimit, which counts in Redis ----

RATELIMIT = """\
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: %d }
"""


def start_ratelimit(folder, name, redis_port, burst=BURST):
    """Returns its pid and its ports for HTTP and gRPC."""
    program = build.ratelimit()
    ports = [procs.free_port() for _ in range(3)]
    folder.write(f"{name}/data/ratelimit/config/edge.yaml", RATELIMIT % burst)
    pid = folder.start(name, [program], ports[1], env={
        "USE_STATSD": "false", "LOG_LEVEL": "error",
        "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{redis_port}",
        "RUNTIME_ROOT": f"{folder.path}/{name}/data",
        "RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_WATCH_ROOT": "false",
        "HOST": "127.0.0.1", "GRPC_HOST": "127.0.0.1",
        "DEBUG_HOST": "127.0.0.1", "PORT": str(ports[0]),
        "GRPC_PORT": str(ports[1]), "DEBUG_PORT": str(ports[2]),
        "GOMAXPROCS": "1"})
    return pid, ports[0], ports[1]


def ratelimit_http(folder):
    redis, redis_port = redis_server(folder, "redis-of-ratelimit-http")
    pid, port, _ = start_ratelimit(folder, "ratelimit-http", redis_port)
    path = once(folder, "json", lambda: (
        messages.post("/json", {"domain": "edge", "descriptors": [
            {"entries": [{"key": "user", "value": key}]}]})
        for key in messages.keys(KEYS)))
    return Entrant({"ratelimit": pid, "redis": redis}, "http", port, path,
                   admits="HTTP/1.1 200")


# ---- gRPC ----

def rls_requests(folder):
    return once(folder, "rls", lambda: (
        messages.should_rate_limit("edge", "user", key)
        for key in messages.keys(KEYS)))


def sluice_grpc(folder):
    pid, at = folder.sluiced("sluiced-grpc", POLICY % BURST, ports=("grpc",))
    return Entrant({"sluiced": pid}, "grpc", at["grpc"], rls_requests(folder),
                   connections=8, depth=32, method=RLS, admits=ADMITS_RPC)


def ratelimit_grpc(folder):
    redis, redis_port = redis_server(folder, "redis-of-ratelimit")
    pid, _, port = start_ratelimit(folder, "ratelimit-grpc", redis_port)
    return Entrant({"ratelimit": pid, "redis": redis}, "grpc", port,
                   rls_requests(folder), connections=8, depth=32, method=RLS,
                   admits=ADMITS_RPC)


def throttlecrab_grpc(folder):
    port = procs.free_port()
    pid = folder.start("throttlecrab-grpc", [
        build.throttlecrab(), "--grpc", "--grpc-host", "127.0.0.1",
        "--grpc-port", str(port), "--log-level", "error"], port)
    path = once(folder, "throttle-rpc", lambda: (
        messages.throttle(key, BURST, REFILL) for key in messages.keys(KEYS)))
    return Entrant({"throttlecrab": pid}, "grpc", port, path, connections=8,
                   depth=32, method="/throttlecrab.RateLimiter/Throttle",
                   admits=ADMITS_RPC)


def gubernator_grpc(folder):
    ports = [procs.free_port() for _ in range(2)]
    pid = folder.start("gubernator", [build.gubernator()], ports[0], env={
        "GUBER_GRPC_ADDRESS": f"127.0.0.1:{ports[0]}",
        "GUBER_HTTP_ADDRESS": f"127.0.0.1:{ports[1]}",
        "GUBER_PEER_DISCOVERY_TYPE": "none", "GUBER_CACHE_SIZE": str(2 * KEYS),
        "GOMAXPROCS": "1"})
    path = once(folder, "gubernator-rpc", lambda: (
        messages.get_rate_limits(key, BURST) for key in messages.keys(KEYS)))
    return Entrant({"gubernator": pid}, "grpc", ports[0], path, connections=8,
                   depth=32, method="/pb.gubernator.V1/GetRateLimits")


# ---- decisions in Redis ----

def sluice_redis(folder):
    redis, port = redis_server(folder, "redis-of-sluiced")
    pid, at = folder.sluiced("sluiced-redis", REDIS_POLICY % BURST,
                             *REDIS_FLAGS, ports=("grpc",),
                             store=f"redis://127.0.0.1:{port}")
    return Entrant({"sluiced": pid, "redis": redis}, "grpc", at["grpc"],
                   rls_requests(folder), connections=8, depth=32, method=RLS,
                   admits=ADMITS_RPC)
