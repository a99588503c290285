"""image.py OUT SLUICED SLUICE POLICY EPOCH VERSION -- an OCI image, as a folder.

The image has the two programs, the shared libraries that they load, the CA
certificates, the time zones and a first policy, and nothing else: no shell and
no package manager. An OCI layout is one layer (a tar), three JSON files that
name each other by their SHA-256, and a marker. The same inputs give the same
bytes: files are sorted, and all times are EPOCH.
"""

import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile

USER = 65532
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
ZONES = "/usr/share/zoneinfo"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class Layer:
    """The files of the image, sorted when they are written."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.entries = {}

    def add(self, path, content=None, mode=0o755, user=0, link=None):
        """A file, a link, or a folder; its parents too."""
        path = path.strip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self.entries:
            self.add(parent)
        info = tarfile.TarInfo(path)
        info.mtime = self.epoch
        info.mode = mode
        info.uid = info.gid = user
        if link is not None:
            info.type, info.linkname = tarfile.SYMTYPE, link
        elif content is None:
            info.type = tarfile.DIRTYPE
        else:
            info.size = len(content)
        self.entries[path] = (info, content)

    def copy(self, source, path=None, mode=0o644):
        """A file of this machine."""
        with open(source, "rb") as file:
            self.add(path or source, file.read(), mode)

    def tar(self):
        """The bytes of the layer, not compressed."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for _, (info, content) in sorted(self.entries.items()):
                tar.addfile(info, io.BytesIO(content) if content else None)
        return out.getvalue()


def stripped(program):
    """The program without symbols."""
    copy = subprocess.run(["mktemp"], check=True, capture_output=True,
                          text=True).stdout.strip()
    try:
        subprocess.run(["strip", "-o", copy, program], check=True)
        with open(copy, "rb") as file:
            return file.read()
    finally:
        os.unlink(copy)


def libraries(program):
    """The shared libraries that a program loads, by the names it asks for."""
    text = subprocess.run(["ldd", program], check=True, capture_output=True,
                          text=True).stdout
    found = {}
    for line in text.splitlines():
        words = line.split()
        if "=>" in words and len(words) >= 3 and words[2].startswith("/"):
            found[words[2]] = words[2]
        elif words and words[0].startswith("/"):
            found[words[0]] = words[0]
        elif "not found" in line:
            sys.exit("image: %s needs %s, which is missing" % (program, words[0]))
    return found


def add_zones(layer):
    """The time zones, each once: most names are links or equal files."""
    seen = {}
    for folder, folders, files in sorted(os.walk(ZONES)):
        folders[:] = sorted(f for f in folders if f not in ("posix", "right"))
        for name in sorted(files):
            path = os.path.join(folder, name)
            real = os.path.realpath(path)
            if not real.startswith(ZONES + "/"):
                continue
            with open(real, "rb") as file:
                content = file.read()
            if content[:4] != b"TZif":
                continue
            if content in seen:
                layer.add(path, link=os.path.relpath(seen[content], folder))
            else:
                seen[content] = path
                layer.add(path, content, 0o644)


def fill(layer, sluiced, sluice, policy):
    """Everything that is in the image."""
    layer.add("usr/sbin/sluiced", stripped(sluiced))
    layer.add("usr/bin/sluice", stripped(sluice))
    for program in (sluiced, sluice):
        for path in sorted(libraries(program)):
            layer.copy(os.path.realpath(path), path, 0o755)
    layer.copy(CERTIFICATES)
    layer.add("usr/lib/ssl/cert.pem", link=CERTIFICATES)
    add_zones(layer)
    layer.copy(policy, "etc/sluice/sluice.yaml")
    layer.add("etc/passwd", b"root:x:0:0::/:/sbin/nologin\n"
              b"sluice:x:%d:%d::/var/lib/sluice:/sbin/nologin\n" % (USER, USER),
              0o644)
    layer.add("etc/group", b"root:x:0:\nsluice:x:%d:\n" % USER, 0o644)
    layer.add("etc/nsswitch.conf", b"hosts: files dns\n", 0o644)
    layer.add("var/lib/sluice", mode=0o700, user=USER)


def config(layer, epoch, version):
    """The image configuration."""
    created = subprocess.run(
        ["date", "-u", "-d", "@%d" % epoch, "+%Y-%m-%dT%H:%M:%SZ"], check=True,
        capture_output=True, text=True).stdout.strip()
    return {
        "created": created,
        "architecture": MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": "%d:%d" % (USER, USER),
            "Entrypoint": ["/usr/sbin/sluiced"],
            "Cmd": ["-c", "/etc/sluice/sluice.yaml"],
            "WorkingDir": "/var/lib/sluice",
            "StopSignal": "SIGTERM",
            "Volumes": {"/var/lib/sluice": {}},
            "ExposedPorts": {"%d/tcp" % port: {}
                             for port in (6380, 8080, 8081, 8082)},
            "Env": [
                "PATH=/usr/sbin:/usr/bin",
                "SLUICE_STORE=memory:/var/lib/sluice/sluice.state",
                "SLUICE_USAGE=sqlite:/var/lib/sluice/sluice.db",
                "SLUICE_LISTEN_ADMIN=127.0.0.1:8082",
                "SLUICE_ADMIN_URL=http://127.0.0.1:8082",
            ],
            # Read by Docker and Podman; Kubernetes has probes instead.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/sluice", "ping"],
                "Interval": 10 * 10**9,
                "Timeout": 5 * 10**9,
                "StartPeriod": 5 * 10**9,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "sluice",
                "org.opencontainers.image.description":
                    "Rate limits, quotas and plans from one policy file",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()],
        },
        "history": [{"created": created, "created_by": "scripts/image"}],
    }


def put(out, content, kind):
    """Store a blob; returns its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    with open(os.path.join(out, "blobs/sha256", digest), "wb") as file:
        file.write(content)
    return {"mediaType": "application/vnd.oci.image." + kind,
            "digest": "sha256:" + digest, "size": len(content)}


def to_json(value):
    """The same bytes for the same value."""
    return json.dumps(value, sort_keys=True, indent=1).encode() + b"\n"


def main(out, sluiced, sluice, policy, epoch, version):
    """Write the layout."""
    layer = Layer(int(epoch))
    fill(layer, sluiced, sluice, policy)
    tar = layer.tar()
    packed = gzip.compress(tar, 6, mtime=0)
    os.makedirs(os.path.join(out, "blobs/sha256"))
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": put(out, to_json(config(tar, int(epoch), version)),
                      "config.v1+json"),
        "layers": [put(out, packed, "layer.v1.tar+gzip")],
    }
    entry = put(out, to_json(manifest), "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": version}
    entry["platform"] = {
        "os": "linux",
        "architecture": MACHINES.get(platform.machine(), platform.machine())}
    for name, content in (
            ("oci-layout", {"imageLayoutVersion": "1.0.0"}),
            ("index.json", {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.index.v1+json",
                "manifests": [entry]})):
        with open(os.path.join(out, name), "wb") as file:
            file.write(to_json(content))
    print("image: %.1f MB, %.1f MB compressed" % (len(tar) / 1e6,
                                                  len(packed) / 1e6),
          file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
