#!/usr/bin/env bash
# jwks.sh SLUICE -- `sluice jwks fetch`, from a server with good and bad answers.
sluice=$(realpath "$1")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

openssl genpkey -algorithm ED25519 -out key.pem 2>/dev/null
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout server.key -out server.crt 2>/dev/null
x=$(openssl pkey -in key.pem -pubout -outform DER | tail -c 32 | basenc --base64url |
    tr -d '=')
cat >keys <<EOT
{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"one","alg":"EdDSA","x":"$x"}]}
EOT

cat >server.py <<'EOP'
"""server.py FOLDER -- answers over HTTP and HTTPS, and writes its ports."""
import socketserver, ssl, sys, threading

with open("keys", "rb") as file:
    keys = file.read()

def chunks(size, end=b"0\r\nX-Last: 1\r\n\r\n"):
    parts = [keys[i:i + size] for i in range(0, len(keys), size)]
    return (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
            b"".join(b"%x;a=b\r\n%s\r\n" % (len(p), p) for p in parts) + end)

def whole(body, status=b"200 OK"):
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (
        status, len(body), body)

answers = {
    b"/keys": whole(keys),
    b"/chunks": chunks(7),
    b"/old": b"HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\n" + keys,
    b"/": whole(keys),
    b"/short": chunks(7, b""),
    b"/wrong": chunks(7, b"zz\r\n\r\n"),
    b"/both": whole(keys).replace(b"\r\n\r\n",
                                  b"\r\nTransfer-Encoding: chunked\r\n\r\n", 1),
    b"/moved": b"HTTP/1.1 302 Found\r\nLocation: /keys\r\nContent-Length: 0\r\n\r\n",
    b"/none": whole(b"no", b"404 Not Found"),
    b"/html": whole(b"<html>"),
    b"/empty": whole(b'{"keys":[]}'),
    b"/secret": whole(b'{"keys":[{"kty":"oct","alg":"HS256","k":"' +
                      b"A" * 43 + b'"}]}'),
    b"/private": whole(keys.replace(b'"x"', b'"d":"%s","x"' % (b"A" * 43))),
    b"/large": whole(b" " * 300000),
}

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        head = b""
        while b"\r\n\r\n" not in head:
            more = self.request.recv(4096)
            if not more:
                return
            head += more
        with open("heard", "wb") as file:
            file.write(head)
        self.wfile.write(answers[head.split()[1].split(b"?")[0]])

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

plain, secure = Server(("127.0.0.1", 0), Handler), Server(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.crt", "server.key")
secure.socket = context.wrap_socket(secure.socket, server_side=True)
threading.Thread(target=plain.serve_forever, daemon=True).start()
with open("ports", "w") as file:
    file.write(f"{plain.server_address[1]} {secure.server_address[1]}\n")
secure.serve_forever()
EOP
launch python3 server.py
until_ test -s ports
read -r http https <ports

fetch() {
    run "$sluice" jwks fetch "http://127.0.0.1:$http$1" "${2:-jwks.json}"
}

fetch /keys
check 'keys are written' cmp keys jwks.json
check 'and counted' test "$out" = 'jwks.json: 1 key, written'
check 'for all to read' test "$(stat -c %a jwks.json)" = 644
check 'the server sees its name' grep -q "^Host: 127.0.0.1:$http" heard
fetch /keys
check 'the same keys are left alone' test "$out" = 'jwks.json: 1 key, unchanged'
for path in '/chunks' '/old' '' '?a=b' '/keys?a=b#c'; do
    rm jwks.json
    fetch "$path"
    check "from \"$path\", too" cmp keys jwks.json
done
chmod 600 jwks.json
echo >>jwks.json
fetch /keys
check 'a file keeps its mode' test "$(stat -c %a jwks.json)" = 600
run "$sluice" jwks fetch "https://localhost:$https/keys" tls.json --ca server.crt
check 'over TLS' cmp keys tls.json
run "$sluice" jwks fetch "https://localhost:$https/keys" no.json
check 'not from an unknown server' is 4
check 'with advice' has "$err" '--ca FILE'

refused() {
    local path=$1 want=$2 text=$3

    fetch "$path"
    check "$path is refused" is "$want"
    check "$path: why" has "$err" "$text"
    check "$path: the file stays" cmp keys jwks.json
}
refused /short 4 'answer'
refused /wrong 4 'not valid'
refused /both 4 'not valid'
refused /moved 1 'redirects are not followed'
refused /none 1 'status 404'
refused /html 1 'JSON'
refused /empty 1 'key'
refused /secret 1 'key'
refused /private 1 'private keys'
refused /large 1 'more than 256 KiB'
check 'nothing else is left' test -z "$(find . -name 'jwks.json?*')"
fetch /keys no/where.json
check 'a folder that is not there' has "$err" 'cannot write "no/where.json"'

for url in id.example/keys ftp://id.example/ https:// http://id.example/keys \
    https://a:b@id.example/ https://id.example:x/; do
    run "$sluice" jwks fetch "$url" no.json
    check "no URL: $url" is 2
done
run "$sluice" jwks get "$url" no.json
check 'another action' has "$err" 'sluice jwks fetch URL FILE'
run "$sluice" jwks fetch http://127.0.0.1:1/keys no.json
check 'no server' is 4
finish
