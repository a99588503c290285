#!/usr/bin/python3
"""grpcjs -- @grpc/grpc-js from npm against the grpc door; see grpcjs.js.

usage: grpcjs.py SLUICED_TEST
"""

import os
import subprocess
import sys

from grpcs import Daemon

POLICY = """
sluice: 1
limits: { api: { kind: fixed-window, per: user, rate: 3/day } }
routes: [{ job: api, limits: [api] }]
default: []
"""
HERE = os.path.dirname(os.path.abspath(__file__))
# Where scripts/setup puts what comes from npm.
MODULES = os.environ.get("SLUICE_NODE_MODULES",
                         os.path.join(HERE, "../../build/node_modules"))


def main():
    daemon = Daemon(sys.argv[1], POLICY)
    status = subprocess.run(
        ["node", os.path.join(HERE, "grpcjs.js"), daemon.grpc,
         os.path.abspath(MODULES)], check=False).returncode
    return daemon.stop() or status


if __name__ == "__main__":
    sys.exit(main())
