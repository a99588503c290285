"""ports.py [FLAG...] -- are the addresses of a daemon with these flags free?

Tells which address is in use, and the flag that changes it, before a build that
would take a minute. A policy may name other addresses, so with a policy only
those of flags and variables are tried.
"""

import errno
import os
import socket
import sys

DEFAULTS = {
    "http": "127.0.0.1:8080",
    "grpc": "127.0.0.1:8081",
    "resp": "127.0.0.1:6380",
    "admin": "127.0.0.1:9090",
}


def value_of(flags, *names):
    """The value of the last of these flags, or None."""
    found = None
    for i, flag in enumerate(flags):
        for name in names:
            if flag == name and i + 1 < len(flags):
                found = flags[i + 1]
            elif flag.startswith(name + "="):
                found = flag[len(name) + 1:]
    return found


def in_use(address):
    """Is this HOST:PORT in use? What cannot be tried is not."""
    host, _, port = address.rpartition(":")
    if address.startswith("unix:") or not port.isdigit() or port == "0":
        return False
    host = host.strip("[]").replace("*", "0.0.0.0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, int(port)))
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False


def main(flags):
    """Report each address in use. Returns an exit status."""
    policy = value_of(flags, "-c", "--policy") or os.environ.get("SLUICE_POLICY")
    status = 0
    for name, default in DEFAULTS.items():
        flag = "--listen-" + name
        address = value_of(flags, flag) or os.environ.get(
            "SLUICE_LISTEN_" + name.upper())
        if not address and not policy:
            address = default
        if address and in_use(address):
            status = 1
            print("run: %s, the address of the %s listener, is in use; choose "
                  "another: scripts/run %s 127.0.0.1:0 (a free port)"
                  % (address, name, flag), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
