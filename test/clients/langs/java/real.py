#!/usr/bin/python3
"""real -- the Java client against real daemons, and the first lines of the pages
of the guide.

usage: real.py ROOT SLUICED JAVA...
"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ports import accepts, free_port  # noqa: E402
from tap import Daemon, Process, Tap, fetch, until  # noqa: E402

POLICY = """
sluice: 1
limits:
  minute: { kind: token-bucket, per: user, rate: 3/min }
  minutes: { kind: quota, per: org, rate: 120/month,
             deny: { status: 402, code: PLAN_LIMIT_EXCEEDED } }
routes:
  - { job: transcribe, limits: [minutes] }
default: [minute]
"""

TLS = """
server:
  tls: { certificate: cert.pem, key: key.pem }
"""


class Numbered(Tap):
    """Tap that passes the lines of a program on."""

    def take(self, line):
        found = re.match(r"(ok|not ok) \d+ - (.*)", line)
        if found:
            self.check(found[2], found[1] == "ok")
        else:
            print(line, flush=True)


def certificate():
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
         "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", "key.pem", "-out", "cert.pem"],
        check=True, stderr=subprocess.DEVNULL)


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def test_client(tap, program, java):
    write("p.yaml", POLICY)
    write("t.yaml", POLICY + TLS)
    certificate()
    flags = ("--usage", f"sqlite:{os.getcwd()}/usage.db")
    daemon = Daemon(program, "p.yaml", *flags)
    port = int(daemon.url.rsplit(":", 1)[1])
    Daemon(program, "p.yaml", path=os.path.abspath("s"))
    secure = Daemon(program, "t.yaml")
    url = secure.serving["http"].replace("127.0.0.1", "localhost")
    real = subprocess.Popen(
        [*java, "sluice.Real", daemon.url, os.path.abspath("s"),
         "https://" + url, "cert.pem"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in real.stdout:
        tap.take(line.rstrip("\n"))
        if line == "# please stop\n":
            daemon.stop()
        elif line == "# please start\n":
            daemon = Daemon(program, "p.yaml", *flags, port=port)
        else:
            continue
        real.stdin.write("\n")
        real.stdin.flush()
    tap.same("the program ends", real.wait(timeout=60), 0)


# ---- the pages ----

def blocks(root, page, language):
    with open(f"{root}/docs/guide/clients/{page}.md",
              encoding="utf-8") as file:
        return re.findall(rf"```{language}\n(.*?)```", file.read(), re.S)


def compile_block(block, classpath, folder="classes"):
    """Compile the class of a block into a folder. Returns its name."""
    name = re.search(r"public (?:final )?class (\w+)", block)[1]
    package = re.search(r"^package (\w+);", block, re.M)
    write(f"{name}.java", block)
    subprocess.run(["javac", "-parameters", "-cp", classpath, "-d", folder,
                    f"{name}.java"], check=True)
    return f"{package[1]}.{name}" if package else name


def printed(block):
    """What the program says that it prints, in comments."""
    return "".join(text + "\n" for text in re.findall(
        r"^(?:.*println.* )?// (.*)$", block, re.M))


def test_page(tap, root, java, daemon):
    """Programs of the page of the client print what they say."""
    classpath = java[-1]
    for number, block in enumerate(blocks(root, "java", "java")):
        name = compile_block(block, classpath)
        ran = subprocess.run(
            [*java[:-1], "classes:" + classpath, name], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env=dict(os.environ, SLUICE_URL=daemon.url,
                     SLUICE_DEADLINE_MS="30000"))
        tap.same(f"example {number + 1} of java.md",
                 (ran.returncode, ran.stdout), (0, printed(block)))


def test_server(tap, root, java, page, classpath, command):
    """The first example of a page serves, with the policy of the page."""
    write(f"{page}.yaml", blocks(root, page, "yaml")[0])
    daemon = Daemon(PROGRAM, f"{page}.yaml")
    port = free_port()
    block = blocks(root, page, "java")[0]
    name = compile_block(block, classpath, page)
    Process([*java[:-2], *[word.replace("PORT", str(port)).replace(
        "NAME", name) for word in command]],
        lambda line: "tarted" in line,
        env={"SLUICE_URL": daemon.url, "SLUICE_DEADLINE_MS": "30000"})
    until(lambda: accepts(port))
    url = f"http://127.0.0.1:{port}/search"
    answers = [fetch(url) for _ in range(3)]
    tap.same(f"the first example of {page}.md",
             [(status, headers.get("x-ratelimit-remaining"))
              for status, headers, _ in answers],
             [(200, "1"), (200, "0"), (429, "0")])
    tap.same(f"and its answer, {page}.md", answers[0][2], "found")


def test_pages(tap, root, java):
    built = os.path.dirname(java[-1].split(":")[0])
    camel = os.path.abspath(f"{built}/../../../../../../examples/camel/target")
    for page in ("java", "spring", "camel"):
        first = blocks(root, page, "java")[0]
        tap.check(f"{page}.md begins with at most ten lines",
                  first.count("\n") <= 10, first)
    write("web.yaml", POLICY)
    daemon = Daemon(PROGRAM, "web.yaml", "--usage",
                    f"sqlite:{os.getcwd()}/pages.db")
    test_page(tap, root, java, daemon)
    test_server(tap, root, java, "spring", java[-1],
                ["-cp", "spring:" + java[-1], "NAME", "--server.port=PORT"])
    test_server(tap, root, java, "camel", f"{camel}/lib/*",
                ["-Dcamel.server.enabled=true", "-Dcamel.server.port=PORT",
                 "-Dcamel.main.basePackageScan=example", "-cp",
                 f"camel:{camel}/lib/*", "org.apache.camel.main.Main"])


def main():
    global PROGRAM
    root, PROGRAM, java = sys.argv[1], sys.argv[2], sys.argv[3:]
    root = os.path.abspath(root)
    os.environ.pop("SLUICE_TOKEN", None)
    tap = Numbered()
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        os.chdir(folder)
        test_client(tap, PROGRAM, java)
        test_pages(tap, root, java)
        os.chdir("/")
    tap.done()


main()
