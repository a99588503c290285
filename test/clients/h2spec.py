#!/usr/bin/python3
"""h2spec -- the gRPC listener and the cases of h2spec for HTTP/2 and HPACK.

Its requests are no gRPC and get 415. All cases pass; the count is printed.
scripts/setup builds h2spec where Go is installed; elsewhere this is skipped.

usage: h2spec.py SLUICED_TEST FOLDER
"""

import os
import re
import shutil
import subprocess
import sys

from grpcs import Daemon, Tap

POLICY = """
sluice: 1
limits: { api: { kind: fixed-window, per: user, rate: 1000/day } }
routes: [{ job: api, limits: [api] }]
default: []
"""


def main():
    program = shutil.which("h2spec", path=sys.argv[2] + os.pathsep +
                           os.environ["PATH"])
    if not program:
        print("1..0 # SKIP h2spec is not installed")
        return 0
    tap = Tap()
    daemon = Daemon(sys.argv[1], POLICY)
    host, port = daemon.grpc.rsplit(":", 1)
    run = subprocess.run([program, "-h", host, "-p", port, "-o", "10"],
                         capture_output=True, text=True, timeout=200,
                         check=False)
    found = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed",
                      run.stdout)
    failures = run.stdout[run.stdout.find("Failures:"):]
    tap.check("h2spec has run", found is not None, run.stdout + run.stderr)
    if found:
        print(f"# {found[0]}")
        tests, passed = int(found[1]), int(found[2])
        tap.check("all of it", tests >= 145, found[0])
        tap.check("all cases pass", passed == tests, failures)
    tap.check("the daemon is there", daemon.alive())
    tap.same("and ends as asked", daemon.stop(), 0)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
