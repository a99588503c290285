#!/usr/bin/env python3
"""measure.py -- the parts of scripts/bench rivals that compute: medians,
tables, plots, messages, reports; and the load generator against servers that
answer as told.

    measure.py ROOT
"""
import shutil
import socket
import sys
import threading
import urllib.request
import xml.etree.ElementTree

ROOT = sys.argv[1]
sys.dont_write_bytecode = True
sys.path[:0] = [f"{ROOT}/bench/measure", f"{ROOT}/bench/rivals",
                f"{ROOT}/bench"]

# pylint: disable=wrong-import-position
import build  # noqa: E402
import contests  # noqa: E402
import growth  # noqa: E402
import messages  # noqa: E402
import procs  # noqa: E402
import report  # noqa: E402
import soak  # noqa: E402
import stats  # noqa: E402
import svg  # noqa: E402

count = failed = 0


def ok(true, name):
    global count, failed
    count += 1
    failed += not true
    print(f"{'ok' if true else 'not ok'} {count} - {name}", flush=True)


def equal(got, want, name):
    ok(got == want, name)
    if got != want:
        print(f"# got {got!r}, want {want!r}", flush=True)


def test_stats():
    equal(stats.median([3, 1, 2]), 2, "the median of three values")
    equal(stats.median([4, 1, 3, 2]), 2.5, "the median of four values")
    equal(stats.summary([5, 1, 9]), {"median": 5, "low": 1, "high": 9},
          "a summary has the smallest and the largest value")
    equal([stats.number(v) for v in (0, 0.0123, 0.5, 3.14159, 42.123, 1234.5)],
          ["0", "0.0123", "0.500", "3.14", "42.1", "1,234"],
          "numbers have three digits")
    equal(stats.table(["a", "b"], [["x", 1]]),
          "| a | b |\n|---|---:|\n| x | 1 |", "a table in Markdown")


def rects(text):
    tree = xml.etree.ElementTree.fromstring(text)
    return [element for element in tree.iter() if element.tag.endswith("rect")]


def test_svg():
    text = svg.bars("a < b", [("group", [("one", 1.0, True),
                                         ("two", 4.0, False)])], "µs")
    widths = [float(rect.get("width")) for rect in rects(text)]
    ok(abs(widths[1] / widths[0] - 4) < 0.01, "bars are to scale")
    ok("a &lt; b" in text, "titles are escaped")
    text = svg.curves("t", "keys", "ns", [("s", [(1000, 10), (10 ** 6, 20)])])
    line = [element for element in xml.etree.ElementTree.fromstring(text).iter()
            if element.tag.endswith("polyline")][0]
    points = [tuple(map(float, point.split(",")))
              for point in line.get("points").split()]
    equal(points[1][0] - points[0][0], svg.WIDE, "a curve fills the width")
    ok(points[1][1] < points[0][1], "larger values are higher")
    equal(svg.ticks(0, 22, False), [0, 5, 10, 15, 20, 25],
          "round steps on a linear axis")
    equal(svg.ticks(1000, 50e6, True), [10 ** n for n in range(3, 9)],
          "powers of ten on a logarithmic axis")
    equal([svg.short(v) for v in (1, 1000, 2.5e6)], ["1", "1k", "2.5M"],
          "short numbers")


def test_messages():
    equal(messages.resp("INCR", "k"), b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n",
          "a command")
    equal(messages.varint(300), b"\xac\x02", "a number of two bytes")
    equal(messages.should_rate_limit("d", "user", "ann"),
          b"\x0a\x01d\x12\x0d\x0a\x0b\x0a\x04user\x12\x03ann\x18\x01",
          "a request of Envoy")
    body = messages.post("/x", {"a": 1}).split(b"\r\n\r\n")
    equal(body[1], b'{"a":1}', "a body")
    ok(b"Content-Length: 7" in body[0], "a body has its length")


def test_contests():
    turns = [{"us": us, "rate": 10 * us, "by": {"a": us / 2, "b": us / 2},
              "decisions": 5, "admitted": 4} for us in (2.0, 1.0, 9.0)]
    row = contests.summarise(turns)
    equal(row["us"], {"median": 2.0, "low": 1.0, "high": 9.0},
          "turns become a median and a spread")
    equal(row["by"], {"a": 1.0, "b": 1.0}, "by process, too")
    equal(row["denied"], 3, "decisions that were not admitted are counted")
    rows = {"Sluice": {"us": {"median": 2.0}}, "x": {"us": {"median": 3.0}},
            "y": {"skipped": "missing"}}
    contests.compare(rows)
    equal([row.get("ratio") for row in rows.values()], [1.0, 1.5, None],
          "ratios are against Sluice")
    equal(build.blame("error: could not find `x` in registry"), "unavailable",
          "what a registry does not have is unavailable")
    equal(build.blame("error[E0308]: mismatched types"), "unbuildable",
          "what does not compile is unbuildable")


def test_report():
    result = {"date": "2026-01-02", "contests": {"c": {"title": "C", "rows": [
        {"name": "Sluice", "us": stats.summary([1.0]), "ratio": 1.0},
        {"name": "x", "us": stats.summary([2.0]), "ratio": 2.0,
         "by": {"x": 1.5, "redis": 0.5}},
        {"name": "y", "skipped": "missing"}]}},
        "over_admission": [
            {"name": "Sluice", "limit": 1000, "admitted": 1000, "asked": 5000},
            {"name": "x", "limit": 1000, "skipped": "unshared"}]}
    lines = report.lines(result).splitlines()
    equal(len(lines), 5, "a line per entrant")
    ok(lines[1].startswith("c: x\t2.00\t-\tmeasured\t2.00 us of CPU"),
       "a line has the ratio and the cost")
    equal(lines[2], "c: y\t-\t-\tskipped\tmissing", "a reason is one word")
    ok("| y | skipped: missing |" in report.tables(result),
       "tables name what was skipped")
    equal(len(rects(report.picture(result))), 2, "a bar for each measurement")


def test_growth():
    turns = iter([{"ns": 1}, {"ns": 9}, {"ns": 2}])
    equal(growth.medians(3, lambda: next(turns)), {"ns": 2},
          "a point is the median of its runs")
    text = growth.draw("limits", [(1, {"ns": 100, "cold_ns": 200}),
                                  (16, {"ns": 900, "cold_ns": 2000})])
    equal(text.count("<polyline"), 2, "a plot has a line per series")
    ok(soak.is_flat([10, 11, 10, 10, 11, 10], 0.02, 1), "noise is flat")
    ok(not soak.is_flat([10, 11, 12, 13, 14, 15], 0.02, 1),
       "what grows is not flat")
    equal(sum(1 for _ in soak.requests()) * soak.BATCH, soak.CHURN,
          "every key is asked for")


def serve(reply):
    """A server that answers each request, which ends as `ask` does."""
    listener = socket.create_server(("127.0.0.1", 0))

    def talk(conn):
        with conn:
            got = b""
            while True:
                try:
                    more = conn.recv(65536)
                except ConnectionResetError:
                    return
                if not more:
                    return
                got += more
                whole = got.count(b"END")
                got = got.rsplit(b"END", 1)[1] if whole else got
                conn.sendall(b"".join(reply() for _ in range(whole)))

    def accept():
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=talk, args=(conn,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def every_second(first, second):
    lock, turn = threading.Lock(), [0]

    def reply():
        with lock:
            turn[0] += 1
            return first if turn[0] % 2 else second
    return reply


def test_load():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
    with procs.Folder() as folder:
        path = folder.requests("asks", [b"one END", b"two END"])
        got = procs.load("http", serve(every_second(head + b"good",
                                                    head + b"evil")), path,
                         connections=3, seconds=60, count=300,
                         per_connection=10, admits="good")
        ok(300 <= got["requests"] <= 303, "as many requests as asked for")
        ok(abs(got["admitted"] - got["requests"] / 2) < 1,
           "replies with the text are counted")
        ok(got["connections"] > 20, "connections are replaced")
        got = procs.load("resp", serve(lambda: b"*2\r\n:1\r\n$1\r\nx\r\n"),
                         path, connections=2, depth=8, seconds=60, count=160)
        ok(160 <= got["requests"] <= 176, "pipelines of eight")
        got = procs.load("resp", serve(lambda: b":1\r\n"), path,
                         connections=2, seconds=1, rate=100)
        ok(got["requests"] <= 101, "a rate is not exceeded")
        try:
            procs.load("resp", serve(lambda: b"-ERR no\r\n"), path, seconds=1)
            ok(False, "an error ends the load")
        except procs.Failed as error:
            ok("-ERR no" in str(error), "an error ends the load")


def test_servers():
    at = "server { listen 127.0.0.1:%(port)d; return 200 '%(dir)s'; }"
    with procs.Folder() as folder:
        worker, port = folder.nginx("web", at)
        ok(procs.connects(port), "nginx listens")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as reply:
            ok(reply.read().decode() == folder.path, "it has its folder")
        ok(procs.cpu_ns(worker) > 0, "its worker has used the processor")
        path = f"{folder.path}/socket"
        sleeper = folder.start(
            "unix", [sys.executable, "-c", "import signal, socket\n"
                     "s = socket.socket(socket.AF_UNIX)\n"
                     f"s.bind({path!r})\ns.listen()\nsignal.pause()"], path)
        ok(procs.connects(path), "a server at a unix socket")
        folder.end(sleeper)
        ok(not procs.connects(path), "one server ends before the others")
        ok(procs.connects(port), "which go on")
        try:
            folder.nginx("bad", "nonsense;")
            ok(False, "a server that does not start")
        except procs.Failed as error:
            ok("nonsense" in str(error), "a server that does not start")
    ok(not procs.connects(port), "all servers end with their folder")


def main():
    test_stats()
    test_svg()
    test_messages()
    test_contests()
    test_report()
    test_growth()
    test_load()
    if shutil.which("nginx"):
        test_servers()
    print(f"1..{count}")
    return 1 if failed else 0


sys.exit(main())
