#!/usr/bin/env bash
# image.sh SLUICED SLUICE ROOT -- the container image: what is in it, and the
# daemon started from it in a chroot, as its user, with a root that is read-only.
#
# With root rights only; runc starts it too, where it is installed and may.
sluiced=$(realpath "$1") sluice=$(realpath "$2")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

make_image() {
    python3 "$root/scripts/lib/image.py" "$1" "$sluiced" "$sluice" \
        "$root/ops/sluice.yaml" 1700000000 0.1.0
}

run make_image image
check 'the image is made' is 0
megabytes=$(sed -n 's/^image: \([0-9]*\)\..*/\1/p' <<<"$err")
check "it has at most 40 MB ($megabytes)" test "${megabytes:-99}" -lt 40
run make_image again
check 'twice' is 0
check 'the same bytes' diff -r image again

# Every file that the layout names has that size and that hash.
run python3 - image <<'EOP'
import gzip, hashlib, json, os, sys

def blob(entry):
    kind, digest = entry["digest"].split(":")
    with open(os.path.join(sys.argv[1], "blobs", kind, digest), "rb") as file:
        content = file.read()
    assert hashlib.sha256(content).hexdigest() == digest
    assert len(content) == entry["size"]
    return content

with open(sys.argv[1] + "/oci-layout") as file:
    assert json.load(file)["imageLayoutVersion"] == "1.0.0"
with open(sys.argv[1] + "/index.json") as file:
    index = json.load(file)
manifest = json.loads(blob(index["manifests"][0]))
config = json.loads(blob(manifest["config"]))
layer = gzip.decompress(blob(manifest["layers"][0]))
assert ["sha256:" + hashlib.sha256(layer).hexdigest()] == \
    config["rootfs"]["diff_ids"]
assert config["config"]["User"] == "65532:65532"
assert config["config"]["Healthcheck"]["Test"][1:] == ["/usr/bin/sluice", "ping"]
with open("layer.tar", "wb") as file:
    file.write(layer)
with open("env", "w") as file:
    file.write("\n".join(config["config"]["Env"]) + "\n")
EOP
check 'it is a valid OCI layout' is 0

tar -tf layer.tar >files
check 'no shell' test -z "$(grep -E '(^|/)(sh|bash|dash|busybox|apt|dpkg)$' files)"
check 'CA certificates and time zones' test \
    "$(grep -cE '(ca-certificates.crt|zoneinfo/Europe/Berlin)$' files)" = 2

if ((EUID != 0)) || ! unshare -m true 2>/dev/null; then
    echo '# the rest needs root'
    finish
fi
mkdir bundle bundle/rootfs
tar -C bundle/rootfs -xf layer.tar
chmod 755 "$folder" bundle
check 'only the state can be written' test "$(setpriv --reuid 65532 --regid 65532 \
    --clear-groups find bundle/rootfs -writable -not -type l)" = \
    bundle/rootfs/var/lib/sluice

# ---- in a chroot ----

# shellcheck disable=SC2016 # for the other shell
inside='set -e
mount --bind bundle/rootfs bundle/rootfs
mount --bind bundle/rootfs/var/lib/sluice bundle/rootfs/var/lib/sluice
mount -o remount,bind,ro bundle/rootfs
! touch bundle/rootfs/etc/x 2>/dev/null
exec env -i $(cat env) "$@"'
user=(chroot --userspec=65532:65532 bundle/rootfs)
http=127.0.0.1:$(free_port)
admin=127.0.0.1:$(free_port)
start_image() {
    launch unshare -m bash -c "$inside" - SLUICE_LISTEN_HTTP="$http" \
        SLUICE_LISTEN_ADMIN="$admin" SLUICE_LISTEN_GRPC=off \
        SLUICE_LISTEN_RESP=off \
        "${user[@]}" /usr/sbin/sluiced -c /etc/sluice/sluice.yaml
    until_ up
}
up() {
    curl -fs -o /dev/null "http://$admin/readyz"
}
start_image
check 'the daemon answers' up
run env -i PATH=/usr/sbin:/usr/bin "${user[@]}" /usr/bin/sluice ping --admin-url "http://$admin"
check 'the health check' has "$out" 'is ready'
run curl -s "http://$http/v1/check" -d '{"path":"/x","user":"ann"}'
check 'it decides' has "$out" '"allowed":true'
# On a machine with other work it may be slow: then once more, and once more.
for _ in 1 2 3; do
    gone "$pid" && start_image
    before=$(date +%s%N)
    kill "$pid"
    wait "$pid"
    status=$?
    took=$((($(date +%s%N) - before) / 1000000))
    ((status == 0 && took >= 1000)) || break
done
check "TERM stops it ($took ms)" is 0
check 'within a second' test "$took" -lt 1000
check 'it wrote its state and nothing else' test "$(find bundle/rootfs \
    -newer files -type f -printf '%P\n' | sed 's|[^/]*$||' | sort -u)" = \
    var/lib/sluice/

finish
