#!/usr/bin/python3
"""real -- the Go client against a real daemon: the page in the guide as it is
printed, and the gRPC interceptors.

usage: real.py ROOT SLUICED page|grpc
"""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from tap import Daemon, Process, Tap, fetch, until  # noqa: E402
from apps import accepts, free_port  # noqa: E402

tap = Tap()
RACE = ["-race"] if os.environ.get("SL_GO_RACE", "1") == "1" else []


def blocks(root):
    """The programs of the page."""
    with open(f"{root}/docs/guide/clients/go.md", encoding="utf-8") as file:
        return re.findall(r"```go\n(.*?)```", file.read(), re.S)


def build(root, folder, name, program, like):
    """Build a program of the page with the modules of the test in `like`, and
    a free port. Returns (file, port)."""
    where, port = f"{folder}/{name}", free_port()
    os.mkdir(where)
    with open(f"{like}/go.mod", encoding="ascii") as file:
        modules = re.sub(r"=> (?:\.\./)+clients", f"=> {root}/clients",
                         file.read())
    with open(f"{where}/go.mod", "w", encoding="ascii") as file:
        file.write(modules)
    if os.path.exists(f"{like}/go.sum"):
        os.symlink(f"{like}/go.sum", f"{where}/go.sum")
    with open(f"{where}/main.go", "w", encoding="utf-8") as file:
        file.write(program.replace("127.0.0.1:8000", f"127.0.0.1:{port}"))
    made = subprocess.run(["go", "build", "-o", "program", "."], cwd=where,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    tap.same(f"{name} is built", (made.returncode, made.stdout), (0, ""))
    return f"{where}/program", port


def start(program, port, daemon):
    env = {"SLUICE_URL": daemon.url, "SLUICE_DEADLINE_MS": "30000"}
    process = Process(["sh", "-c", 'echo starts; exec "$@"', "sh", program],
                      lambda line: True, env=env)
    until(lambda: accepts(port))
    return process


def page(root, sluiced, folder):
    found = blocks(root)
    tap.check("the first example of the page has at most ten lines",
              found[0].count("\n") <= 10, found[0])
    daemon = Daemon(sluiced, f"{HERE}/policy.yaml",
                    "--usage", f"sqlite:{folder}/usage.db")
    program, port = build(root, folder, "middleware", found[0], HERE)
    start(program, port, daemon)
    tap.same("the first example of the page",
             [fetch(f"http://127.0.0.1:{port}/api/hello",
                    headers={"X-User": "page"})[0] for _ in range(4)],
             [200, 200, 200, 429])
    program, _ = build(root, folder, "client", found[1], HERE)
    said = subprocess.run([program], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, SLUICE_URL=daemon.url,
                                   SLUICE_DEADLINE_MS="30000"))
    wanted = "".join(line[3:] + "\n" for line in found[1].splitlines()
                     if line.startswith("// "))
    tap.same("the second example of the page prints what it says",
             said.stdout, wanted)


def go_test(name, folder, env, *flags):
    """The tests of a folder, as TAP."""
    said = subprocess.run(
        ["go", "test", *RACE, "-count=1", "-v", *flags, "."], cwd=folder,
        env=dict(os.environ, **env), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    for result, test in re.findall(r"^--- (PASS|FAIL): (\S+)", said.stdout,
                                   re.M):
        tap.check(f"{name}: {test}", result == "PASS", said.stdout)
    tap.same(f"{name}: the tests end", said.returncode, 0)
    if said.returncode:
        print("# " + said.stdout.replace("\n", "\n# "))


def grpc(root, sluiced, folder):
    where = f"{HERE}/grpc"
    daemon = Daemon(sluiced, f"{where}/policy.yaml")
    program, port = build(root, folder, "server", blocks(root)[2], where)
    start(program, port, daemon)
    go_test("grpc", where, {"SLUICE_URL": daemon.url,
                            "PAGE": f"127.0.0.1:{port}"})


def main():
    root, sluiced, what = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        {"page": page, "grpc": grpc}[what](root, os.path.abspath(sluiced),
                                           folder)
    tap.done()


main()
