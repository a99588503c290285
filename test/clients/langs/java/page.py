#!/usr/bin/python3
"""page -- the application that a page of the guide prints, in an empty folder,
beside a daemon.

usage: page.py ROOT spring|camel SLUICED-FOR-TESTS CLASSPATH MAIN

Maven would load plugins: the page's pom.xml is compared with that of the example,
which the tests build, and javac compiles the class.
"""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tap import Daemon, Process, Tap, fetch, until  # noqa: E402
from ports import accepts, free_port  # noqa: E402

NAMES = {"java": r"src/main/java/example/\w+\.java", "xml": r"pom\.xml",
         "properties": r"src/main/resources/application\.properties",
         "yaml": r"sluice\.yaml"}


def files_of(page):
    """The first block of each kind, by the name that the page gives it."""
    found = {}
    for kind, name in NAMES.items():
        body = re.search(rf"^```{kind}\n(.*?)^```$", page, re.M | re.S)[1]
        found[re.search(f"`({name})`", page)[1]] = body
    return found


def artefacts(text):
    """What a pom.xml names: group, name and version."""
    pom = xml.fromstring(re.sub(r'xmlns="[^"]*"', "", text))
    values = {f"${{{one.tag}}}": one.text for one in pom.findall("properties/*")}
    return {tuple(values.get(part.text, part.text) for part in one
                  if part.tag in ("groupId", "artifactId", "version"))
            for one in [*pom.findall("parent"),
                        *pom.findall("dependencies/dependency")]}


def write(folder, files):
    for name, body in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(body)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def main():
    root, name, program, classpath, start = sys.argv[1:]
    tap = Tap()
    page = read(root, f"docs/guide/clients/{name}.md")
    files = files_of(page)
    source = next(path for path in files if path.endswith(".java"))
    tap.check("the code has ten lines at most",
              len([line for line in files[source].split("\n") if line]) <= 10)
    tap.same("pom.xml has nothing that the example has not", artefacts(
        files["pom.xml"]) - artefacts(read(root, f"examples/{name}/pom.xml")),
        set())
    with tempfile.TemporaryDirectory() as folder:
        settings, port = "src/main/resources/application.properties", free_port()
        files[settings] = files[settings].replace("8090", str(port))
        write(folder, files)
        subprocess.run(["javac", "-cp", classpath, "-d", f"{folder}/classes",
                        f"{folder}/{source}"], check=True)
        daemon = Daemon(program, f"{folder}/sluice.yaml", "--clock=virtual")
        Process(["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
                 f"{folder}/classes:{folder}/src/main/resources:{classpath}",
                 start], lambda line: "started" in line.lower(),
                env={"SLUICE_URL": daemon.url, "SLUICE_DEADLINE_MS": "30000"})
        if not until(lambda: accepts(port)):
            raise SystemExit("Bail out! the application does not serve")
        answers = [fetch(f"http://127.0.0.1:{port}/search") for _ in range(3)]
    tap.same("two of three requests pass",
             [answer[0] for answer in answers], [200, 200, 429])
    tap.same("the answer of the application", answers[0][2], "found")
    tap.same("the answer of the policy", answers[2][1].get("content-type"),
             "application/problem+json")
    tap.done()


main()
