"""build.py -- the rivals, from their registries, into build/rivals.

Each function returns what to start, or raises Skip with one word: `missing` (a
tool is not installed), `unavailable` (the registry does not have it),
`unbuildable` or `slow` (the build failed, or took too long). A build is kept,
and so is its failure within one run. Logs are build/rivals/NAME.log.
"""
import os
import shutil
import signal
import subprocess

FOLDER = os.path.abspath("build/rivals")
SOURCES = os.path.abspath("bench/rivals")
TIMEOUT = 1800

VERSIONS = {
    "throttlecrab": "0.4.40",
    "redis-cell": "0.2.2",
    "governor": "0.10.4",
    "limitador": "0.14.0",
    "ratelimit": "v1.4.1-0.20260122083618-3fb702589d36",
    "gubernator": "v2.14.0",
    "x/time/rate": "v0.12.0",
    "Bucket4j": "8.14.0",
    "rate-limiter-flexible": "11.4.0",
}


class Skip(Exception):
    """This rival cannot be measured here; the text is one word."""


def need(tool):
    path = shutil.which(tool) or shutil.which(
        tool, path="/usr/sbin:/usr/local/sbin:/sbin")
    if not path:
        raise Skip("missing")
    return path


def blame(log):
    """One word for a failed build."""
    words = ("could not find", "403 Forbidden", "404 Not Found", "not found in",
             "E404", "Could not find artifact", "failed to get")
    return ("unavailable" if any(word in log for word in words)
            else "unbuildable")


def build(name, stamp, command, cwd=None, env=None):
    """Run `command` unless it ran before with this `stamp`."""
    os.makedirs(FOLDER, exist_ok=True)
    done, log = f"{FOLDER}/{name}.done", f"{FOLDER}/{name}.log"
    if os.path.exists(done) and open(done, encoding="utf-8").read() == stamp:
        return
    with open(log, "wb") as out, subprocess.Popen(
            command, cwd=cwd, env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True) as process:
        try:
            status = process.wait(TIMEOUT)
        except BaseException as error:
            # The compilers that it started, too.
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Skip("slow") from error
            raise
    if status:
        with open(log, encoding="utf-8", errors="replace") as file:
            raise Skip(blame(file.read()))
    with open(done, "w", encoding="utf-8") as file:
        file.write(stamp)


def text_of(*paths):
    return "".join(open(path, encoding="utf-8").read() for path in paths)


def copied(name):
    """A copy of our own sources, so that tools leave nothing beside them."""
    target = f"{FOLDER}/{name}-source"
    shutil.copytree(f"{SOURCES}/{name}", target, dirs_exist_ok=True)
    return target


# ---- Rust ----

def cargo_env():
    return {"CARGO_TARGET_DIR": f"{FOLDER}/target"}


def throttlecrab():
    cargo, version = need("cargo"), VERSIONS["throttlecrab"]
    need("protoc")
    build("throttlecrab", version,
          [cargo, "install", "--locked", "--root", f"{FOLDER}/throttlecrab",
           f"throttlecrab-server@{version}"], env=cargo_env())
    return f"{FOLDER}/throttlecrab/bin/throttlecrab-server"


def redis_cell():
    """The module, as the library that a dependency leaves."""
    cargo = need("cargo")
    need("redis-server")
    source = copied("redis-cell")
    build("redis-cell", text_of(f"{source}/Cargo.toml"),
          [cargo, "build", "--release", "--manifest-path",
           f"{source}/Cargo.toml"],
          env={"CARGO_TARGET_DIR": f"{FOLDER}/redis-cell"})
    folder = f"{FOLDER}/redis-cell/release/deps"
    for name in os.listdir(folder):
        if name.startswith("libredis_cell") and name.endswith(".so"):
            return f"{folder}/{name}"
    raise Skip("unbuildable")


def rust_driver(name):
    """The driver. limitador has many dependencies, so the driver with it is
    another build, and the other libraries do not depend on it."""
    cargo, source = need("cargo"), copied("rust")
    features = ["--features", "limitador"] if name == "limitador" else []
    build("limitador" if features else "rust",
          text_of(f"{source}/Cargo.toml", f"{source}/src/main.rs"),
          [cargo, "install", "--path", source, "--root",
           f"{FOLDER}/rust{'-limitador' if features else ''}", *features],
          env=cargo_env())
    return (f"{FOLDER}/rust{'-limitador' if features else ''}/bin/"
            "sluice-rivals")


# ---- Go ----

def go_install(name, package):
    go, version = need("go"), VERSIONS[name]
    build(name, version, [go, "install", f"{package}@{version}"],
          env={"GOBIN": f"{FOLDER}/go"})
    return f"{FOLDER}/go/{package.rsplit('/', 1)[1]}"


def ratelimit():
    need("redis-server")
    return go_install("ratelimit",
                      "github.com/envoyproxy/ratelimit/src/service_cmd")


def gubernator():
    go, source = need("go"), copied("gubernator")
    package = "github.com/gubernator-io/gubernator/v2/cmd/gubernator"
    build("gubernator", text_of(f"{source}/go.mod"),
          [go, "build", "-mod=mod", "-o", f"{FOLDER}/go/gubernator", package],
          cwd=source)
    return f"{FOLDER}/go/gubernator"


def go_driver():
    go, source = need("go"), copied("go")
    build("go", text_of(f"{source}/go.mod", f"{source}/main.go"),
          [go, "build", "-mod=mod", "-o", f"{FOLDER}/go/rivals", "."],
          cwd=source)
    return f"{FOLDER}/go/rivals"


# ---- Java and JavaScript ----

def java_driver():
    """The class path."""
    need("java")
    mvn, source = need("mvn"), copied("java")
    build("java", text_of(f"{source}/pom.xml", f"{source}/Rivals.java"),
          [mvn, "-q", "-B", "compile", "dependency:build-classpath",
           "-Dmdep.outputFile=classpath"], cwd=source)
    return f"{source}/target/classes:" + text_of(f"{source}/classpath").strip()


def js_modules():
    need("node")
    npm, target = need("npm"), f"{FOLDER}/js"
    packages = [f"rate-limiter-flexible@{VERSIONS['rate-limiter-flexible']}",
                "ioredis@5.4.1"]
    build("js", " ".join(packages),
          [npm, "install", "--prefix", target, "--no-save", "--no-audit",
           "--no-package-lock", "--no-fund", "--ignore-scripts", *packages])
    return f"{target}/node_modules"
