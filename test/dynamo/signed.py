#!/usr/bin/env python3
# signed.py ENDPOINT OPERATION BODY -- one request to DynamoDB, signed by the
# keys of the environment; prints the answer. Not our own signature: what this
# makes and what sluiced makes are both looked at by dynamo.js.
import datetime
import hashlib
import hmac
import os
import sys
import urllib.error
import urllib.request

endpoint, operation, body = sys.argv[1], sys.argv[2], sys.argv[3].encode()
date = datetime.datetime.utcnow().strftime("%Y%m%dT%H%M%SZ")
headers = {
    "content-type": "application/x-amz-json-1.0",
    "host": endpoint.split("//")[1],
    "x-amz-date": date,
    "x-amz-target": "DynamoDB_20120810." + operation,
}


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


names = ";".join(sorted(headers))
request = "\n".join(["POST", "/", ""] + [
    name + ":" + headers[name] for name in sorted(headers)
] + ["", names, hashlib.sha256(body).hexdigest()])
scope = date[:8] + "/eu-west-1/dynamodb/aws4_request"
text = "\n".join(["AWS4-HMAC-SHA256", date, scope,
                  hashlib.sha256(request.encode()).hexdigest()])
key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
for link in scope.split("/"):
    key = mac(key, link)
headers["authorization"] = (
    "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s"
    % (os.environ["AWS_ACCESS_KEY_ID"], scope, names, mac(key, text).hex()))
try:
    with urllib.request.urlopen(
            urllib.request.Request(endpoint + "/", body, headers)) as answer:
        print(answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
    sys.exit(1)
