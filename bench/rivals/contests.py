"""contests.py -- who is compared with whom, and how.

A contest is a group of entrants that do the same work. All of them are started;
then they take turns, for several rounds, so that noise of the machine meets all
alike. What cannot be built or started is skipped with one word.
"""
import concurrent.futures
import time

import build
import drivers
import messages
import procs
import servers
import stats

SHARED_BURST = 1000


def resp(depth):
    return [
        ("Sluice", lambda f: servers.sluice_resp(f, depth)),
        ("throttlecrab", lambda f: servers.throttlecrab_resp(f, depth)),
        ("redis-cell", lambda f: servers.redis_cell(f, depth)),
        ("Redis INCR", lambda f: servers.redis_incr(f, depth)),
        ("Redis Lua bucket", lambda f: servers.redis_lua(f, depth)),
    ]


HTTP = [
    ("Sluice", servers.sluice_check),
    ("Sluice /v1/auth", servers.sluice_auth),
    ("throttlecrab", servers.throttlecrab_http),
    ("limitador", lambda f: skip("unpublished")),
    ("envoyproxy/ratelimit", servers.ratelimit_http),
    ("nginx limit_req", lambda f: servers.nginx(f, "/limited")),
    ("nginx, no limit", lambda f: servers.nginx(f, "/none")),
    ("HAProxy stick table",
     lambda f: servers.haproxy(f, servers.STICK, "/stick")),
    ("HAProxy, no limit", lambda f: servers.haproxy(f, "", "/plain")),
]

GRPC = [
    ("Sluice", servers.sluice_grpc),
    ("throttlecrab", servers.throttlecrab_grpc),
    ("limitador", lambda f: skip("unpublished")),
    ("envoyproxy/ratelimit", servers.ratelimit_grpc),
    ("gubernator", servers.gubernator_grpc),
]

REDIS = [
    ("Sluice", servers.sluice_redis),
    ("envoyproxy/ratelimit", servers.ratelimit_grpc),
    ("rate-limiter-flexible", drivers.flexible_redis),
    ("Bucket4j", drivers.bucket4j_redis),
]


def library(keys):
    return [
        ("Sluice", lambda f: drivers.sluice(keys, "own")),
        ("Sluice, caller's clock", lambda f: drivers.sluice(keys, "caller")),
        ("governor", lambda f: drivers.rust("governor", keys)),
        ("throttlecrab", lambda f: drivers.rust("throttlecrab", keys)),
        ("limitador", lambda f: drivers.rust("limitador", keys)),
        ("x/time/rate", lambda f: drivers.x_time_rate(keys)),
        ("Bucket4j", lambda f: drivers.bucket4j(keys)),
        ("rate-limiter-flexible", lambda f: drivers.flexible(keys)),
    ]


CONTESTS = {
    "resp": ("Redis protocol, pipeline 1, 32 connections", resp(1)),
    "resp-64": ("Redis protocol, pipeline 64, 32 connections", resp(64)),
    "http": ("HTTP/1.1, 64 connections", HTTP),
    "grpc": ("gRPC, 8 connections with 32 calls each", GRPC),
    "redis": ("Decisions in Redis, 64 or 256 under way", REDIS),
    "hot": ("In process, 1,000 keys, one thread", library(1000)),
    "cold": ("In process, 1,000,000 keys, one thread", library(1_000_000)),
}


def skip(word):
    raise build.Skip(word)


def skipped(who, error, say):
    """One word for the reason; all of it goes to standard error."""
    word = str(error) if isinstance(error, build.Skip) else "failed"
    say(f"rivals: {who} is skipped: {error}")
    return {"skipped": word}


def summarise(turns):
    """Medians and spreads of the turns of one entrant."""
    row = {"us": stats.summary([turn["us"] for turn in turns])}
    for name in ("rate", "busy", "p99_us", "bytes"):
        if name in turns[0]:
            row[name] = stats.median([turn[name] for turn in turns])
    if "by" in turns[0]:
        row["by"] = {name: stats.median([turn["by"][name] for turn in turns])
                     for name in turns[0]["by"]}
    denied = sum(turn["decisions"] - turn["admitted"] for turn in turns
                 if "admitted" in turn)
    if denied:
        row["denied"] = denied
    return row


def run(name, rounds, seconds, wanted, say):
    """Hold one contest. Returns its rows, Sluice's first."""
    entrants = [(who, start) for who, start in CONTESTS[name][1]
                if who.startswith("Sluice") or not wanted or who in wanted]
    rows = {who: {"name": who} for who, _ in entrants}
    turns = {}
    with procs.Folder() as folder:
        ready = []
        for who, start in entrants:
            say(f"rivals: {name}: start {who}")
            try:
                ready.append((who, start(folder)))
                turns[who] = []
            except (build.Skip, procs.Failed, OSError) as error:
                rows[who].update(skipped(who, error, say))
        for number in range(-1, rounds):
            say(f"rivals: {name}: " + ("warm up" if number < 0 else
                                       f"round {number + 1} of {rounds}"))
            for who, entrant in list(ready):
                if number < 0 and not entrant.gets_warm:
                    continue
                try:
                    turn = entrant.measure(seconds)
                except (build.Skip, procs.Failed, OSError,
                        ValueError) as error:
                    rows[who].update(skipped(who, error, say))
                    ready.remove((who, entrant))
                    turns.pop(who)
                    continue
                if number >= 0:
                    turns[who].append(turn)
    for who, list_of_turns in turns.items():
        rows[who].update(summarise(list_of_turns))
    compare(rows)
    return list(rows.values())


def compare(rows):
    """Each row's cost as a multiple of Sluice's."""
    ours = rows.get("Sluice", {}).get("us", {}).get("median")
    for row in rows.values():
        if ours and "us" in row:
            row["ratio"] = row["us"]["median"] / ours


# ---- over-admission: two processes share one limit of 1,000 in Redis ----

def together(*calls):
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in
                [pool.submit(call) for call in calls]]


def asks(protocol, port, path, seconds, **load):
    return lambda: procs.load(protocol, port, path, seconds=seconds, **load)


def shared_sluice(folder, seconds):
    _, redis = servers.redis_server(folder, "redis-shared-sluice")
    path = folder.requests("shared", [
        messages.should_rate_limit("edge", "user", "ann")])
    ports = [folder.sluiced(f"sluiced-{i}",
                            servers.REDIS_POLICY % SHARED_BURST,
                            *servers.REDIS_FLAGS, ports=("grpc",),
                            store=f"redis://127.0.0.1:{redis}")[1]["grpc"]
             for i in range(2)]
    return together(*(asks("grpc", port, path, seconds, connections=2,
                           depth=32, method=servers.RLS,
                           admits=servers.ADMITS_RPC) for port in ports))


def shared_ratelimit(folder, seconds):
    _, redis = servers.redis_server(folder, "redis-shared-ratelimit")
    path = folder.requests("shared", [
        messages.should_rate_limit("edge", "user", "ann")])
    ports = [servers.start_ratelimit(folder, f"ratelimit-{i}", redis,
                                     SHARED_BURST)[2] for i in range(2)]
    return together(*(asks("grpc", port, path, seconds, connections=2,
                           depth=32, method=servers.RLS,
                           admits=servers.ADMITS_RPC) for port in ports))


def shared_driver(command):
    def run_two(folder, seconds):
        words = command("redis")
        _, redis = servers.redis_server(folder, "redis-shared-driver")
        line = [*words, str(redis), "1", str(seconds), str(SHARED_BURST)]
        return together(*[
            lambda: drivers.run(line, seconds, (procs.LOAD,))] * 2)
    return run_two


def shared_lua(folder, seconds):
    entrant = servers.redis_lua(folder, 1)
    sha = open(entrant.requests_file, "rb").read(200).split(b"\r\n")[4]
    path = folder.requests("shared", [messages.resp(
        "EVALSHA", sha.decode(), 1, "ann", SHARED_BURST,
        servers.REFILL / messages.DAY)])
    return together(*[asks("resp", entrant.port, path, seconds, depth=16,
                           connections=4, admits="*2\r\n:1\r\n")] * 2)


SHARED = [
    ("Sluice", shared_sluice),
    ("envoyproxy/ratelimit", shared_ratelimit),
    ("rate-limiter-flexible", shared_driver(drivers.js_command)),
    ("Bucket4j", shared_driver(drivers.java_command)),
    ("Redis Lua bucket", shared_lua),
    ("throttlecrab", lambda f, s: skip("unshared")),
    ("governor", lambda f, s: skip("unshared")),
]


def over_admission(seconds, wanted, say):
    rows = []
    for who, count in SHARED:
        if wanted and who != "Sluice" and who not in wanted:
            continue
        say(f"rivals: over-admission: {who}")
        row = {"name": who, "limit": SHARED_BURST}
        try:
            with procs.Folder() as folder:
                both = count(folder, seconds)
            row["admitted"] = sum(one["admitted"] for one in both)
            row["asked"] = sum(one.get("total", one.get("requests"))
                               for one in both)
        except (build.Skip, procs.Failed, OSError, ValueError) as error:
            row.update(skipped(who, error, say))
        rows.append(row)
    return rows


def is_late(deadline):
    return time.monotonic() > deadline
