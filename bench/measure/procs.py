"""procs.py -- servers that a measurement starts, and what they cost.

Servers run on the first processor that we may use, load on the last. CPU time
is that of /proc/PID/task/*/schedstat, in ns: what the scheduler gave to the
threads of the process, so other work on the machine does not count.
"""
import glob
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

PROCESSORS = sorted(os.sched_getaffinity(0))
SERVER, LOAD = PROCESSORS[0], PROCESSORS[-1]
# Tests measure another build than scripts/bench.
BUILD = os.path.abspath(os.environ.get("SL_BUILD", "build/release"))
LOAD_PROGRAM = f"{BUILD}/bench/load"
SLUICED = f"{BUILD}/src/sluiced/sluiced"


class Failed(Exception):
    """A server did not start, or a load did not end well."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pinned(processors):
    return lambda: os.sched_setaffinity(0, processors)


def cpu_ns(pid):
    """CPU time of a process."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path, encoding="ascii") as file:
                total += int(file.read().split()[0])
        except OSError:
            pass  # the thread has ended
    return total


def resident(pid):
    """Resident bytes of a process."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def connects(at):
    """Does a server listen? `at` is a port, or the path of a unix socket."""
    is_port = isinstance(at, int)
    with socket.socket(socket.AF_INET if is_port else socket.AF_UNIX) as s:
        s.settimeout(2)
        return s.connect_ex(("127.0.0.1", at) if is_port else at) == 0


def wait_for(what, code, seconds=60, step=0.02):
    end = time.monotonic() + seconds
    while not code():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(step)


# One worker, whose files are in the folder of its configuration.
NGINX = """\
%(main)s
%(user)s
worker_processes 1;
pid nginx.pid;
error_log error.log crit;
events { worker_connections 1024; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c;
    uwsgi_temp_path d; scgi_temp_path e;
    %(http)s
}
"""


class Folder:
    """A folder for what servers write, and the servers in it. All end with
    the `with` block, by their pid."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="sluice-bench-")
        os.chmod(self.path, 0o755)
        self.started = []
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            self.stop(process)
        shutil.rmtree(self.path, ignore_errors=True)

    def write(self, name, content):
        path = f"{self.path}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes)
                       else content.encode())
        return path

    def start(self, name, command, at, env=None, processors=(SERVER,)):
        """Start a server and wait until it listens at a port or at the path of
        a unix socket. Returns its pid."""
        log = f"{self.path}/{name}.log"
        with open(log, "ab") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                cwd=self.path, env={**os.environ, **(env or {})},
                preexec_fn=pinned(processors))
        self.started.append(process)
        end = time.monotonic() + 60
        while not connects(at):
            if process.poll() is not None or time.monotonic() > end:
                with open(log, encoding="utf-8", errors="replace") as file:
                    raise Failed(f"{name} did not start: {file.read()[-500:]}")
            time.sleep(0.02)
        return process.pid

    def stop(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def end(self, pid):
        """Stop a server before the others."""
        process = next(p for p in self.started if p.pid == pid)
        self.stop(process)
        self.started.remove(process)

    def nginx(self, name, http, main="", program="nginx",
              processors=(SERVER,)):
        """Start nginx. `http` and `main` are directives of these blocks, with
        %(port)d and %(dir)s. Returns the pid of its worker and the port."""
        port = free_port()
        conf = self.write(f"{name}/nginx.conf", NGINX % {
            "main": main, "http": http % {"port": port, "dir": self.path},
            "user": "user root;" if os.geteuid() == 0 else ""})
        prefix = f"{self.path}/{name}"
        master = self.start(
            name, [program, "-p", prefix, "-e", "stderr", "-c", conf, "-g",
                   "daemon off;"], port, processors=processors)
        wait_for("a worker of nginx", lambda: children(master))
        return children(master)[0], port

    def requests(self, name, items):
        """A file of requests, as the load generator reads it."""
        return self.write(name, b"".join(
            struct.pack("<I", len(item)) + item for item in items))

    def sluiced(self, name, policy, *flags, ports=("http",), threads=1,
                processors=(SERVER,), store="memory:", memory="128MiB"):
        """Start sluiced. Returns its pid and the port of each listener."""
        at = {port: free_port() for port in ports}
        listen = []
        for kind in ("http", "grpc", "resp", "admin"):
            listen += [f"--listen-{kind}",
                       f"127.0.0.1:{at[kind]}" if kind in at else "off"]
        pid = self.start(
            name, [SLUICED, "-c", self.write(f"{name}/policy.yaml", policy),
                   "--threads", str(threads), "--store", store, "--memory",
                   memory, "--usage", "none", *listen, *flags],
            at[ports[0]], processors=processors)
        return pid, at


def load(protocol, port, requests, *, connections=64, depth=1, seconds=1.0,
         rate=0, count=0, per_connection=0, admits=None, method=None,
         processors=(LOAD,)):
    """Run the load generator. Returns what it printed."""
    command = [LOAD_PROGRAM, "-c", str(connections), "-d", str(depth), "-t",
               str(seconds), "-r", str(rate), "-n", str(count), "-k",
               str(per_connection)]
    command += ["-a", admits] if admits else []
    command += ["-p", method] if method else []
    try:
        done = subprocess.run(
            command + [protocol, str(port), requests], capture_output=True,
            text=True, check=False, timeout=seconds * 3 + 120,
            preexec_fn=pinned(processors))
    except subprocess.TimeoutExpired as late:
        raise Failed("the load did not end") from late
    if done.returncode:
        raise Failed(done.stderr.strip())
    return json.loads(done.stdout)
