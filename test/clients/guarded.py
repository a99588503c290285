#!/usr/bin/python3
"""guarded -- tokens, TLS and reflection at the grpc door, by python3-grpcio.

usage: guarded.py SLUICED_TEST
"""

import os
import subprocess
import sys
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import protos
from grpcs import (HEALTH, PACKAGE, SHOULD, Daemon, HealthRequest,
                   HealthResponse, Request, Response, Tap, request, short)

POLICY = """
sluice: 1
limits: { api: { kind: fixed-window, per: user, rate: 9/day } }
routes: [{ job: api, limits: [api] }]
default: []
"""
find = protos.load("reflection.proto")
Ask = find("grpc.reflection.v1.ServerReflectionRequest")
Answer = find("grpc.reflection.v1.ServerReflectionResponse")


def make_certificates(folder):
    """ca, server and client, each NAME.pem and NAME.key."""
    def run(*words):
        subprocess.run(["openssl", *words], check=True, cwd=folder,
                       stderr=subprocess.DEVNULL)
    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("server", "client"):
        run("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=" + name,
            "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
            "-keyout", name + ".key", "-out", name + ".csr")
        run("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey",
            "ca.key", "-CAcreateserial", "-days", "2", "-copy_extensions",
            "copy", "-out", name + ".pem")


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def should(channel, metadata=()):
    call = channel.unary_unary(SHOULD, Request.SerializeToString,
                               Response.FromString)
    try:
        return short(call(request("api", {"user": "ann"}), timeout=60,
                          metadata=metadata))
    except grpc.RpcError as error:
        return error.code().name


def health(channel):
    call = channel.unary_unary(HEALTH + "Check",
                               HealthRequest.SerializeToString,
                               HealthResponse.FromString)
    return call(HealthRequest(), timeout=60).status


def test_token(tap, program):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("s3cret-token-of-the-door")
        file.flush()
        daemon = Daemon(program, POLICY, "--access-token-file", file.name)
    channel = grpc.insecure_channel(daemon.grpc)
    right = "Bearer s3cret-token-of-the-door"
    tap.same("without the token nothing is decided", should(channel),
             "UNAUTHENTICATED")
    for name, pair in (
            ("a wrong one", ("authorization", "Bearer s3cret")),
            ("another scheme", ("authorization", "Basic " + right[7:])),
            ("none behind the scheme", ("authorization", "Bearer"))):
        tap.same(name, should(channel, [pair]), "UNAUTHENTICATED")
    tap.same("with it, it is", should(channel, [("authorization", right)]),
             "OK api:9/DAY=8")
    tap.same("in our own field as well",
             should(channel, [("x-sluice-token", right[7:])]),
             "OK api:9/DAY=7")
    tap.same("health is for everybody", health(channel), 1)
    other = channel.unary_unary("/a.b.C/d", lambda x: x, lambda x: x)
    try:
        other(b"", timeout=60)
        code = "OK"
    except grpc.RpcError as error:
        code = error.code().name
    tap.same("what there is not is not told without it", code,
             "UNAUTHENTICATED")
    daemon.stop()


def test_tls(tap, program):
    with tempfile.TemporaryDirectory() as folder:
        make_certificates(folder)
        flags = ["--tls-certificate", os.path.join(folder, "server.pem"),
                 "--tls-key", os.path.join(folder, "server.key"),
                 "--tls-client-ca", os.path.join(folder, "ca.pem")]
        daemon = Daemon(program, POLICY, *flags)
        ca = read(folder, "ca.pem")
        bare = grpc.ssl_channel_credentials(ca)
        known = grpc.ssl_channel_credentials(
            ca, read(folder, "client.key"), read(folder, "client.pem"))
    tap.same("below TLS it wants a certificate",
             should(grpc.secure_channel(daemon.grpc, bare)), "UNAVAILABLE")
    tap.same("which serves as a token",
             should(grpc.secure_channel(daemon.grpc, known)),
             "OK api:9/DAY=8")
    tap.same("a client without TLS gets no answer",
             should(grpc.insecure_channel(daemon.grpc)), "UNAVAILABLE")
    daemon.stop()


class Reflection:
    def __init__(self, channel, version):
        self.call = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/"
            "ServerReflectionInfo", Ask.SerializeToString, Answer.FromString)

    def ask(self, *questions):
        return list(self.call(iter(questions), timeout=60))


def learn(reflection):
    """All files that the services stand on, in a pool."""
    pool, files, known = descriptor_pool.DescriptorPool(), {}, set()
    wanted = [Ask(file_containing_symbol=PACKAGE + "RateLimitService"),
              Ask(file_containing_symbol="grpc.health.v1.Health.Watch")]
    while wanted:
        for answer in reflection.ask(*wanted):
            for text in answer.file_descriptor_response.file_descriptor_proto:
                file = descriptor_pb2.FileDescriptorProto.FromString(text)
                files[file.name] = file
        wanted = [Ask(file_by_filename=name) for file in files.values()
                  for name in file.dependency if name not in files]

    def add(name):
        if name not in known:
            known.add(name)
            for other in files[name].dependency:
                add(other)
            pool.Add(files[name])
    for name in files:
        add(name)
    return pool


def test_reflection(tap, program):
    daemon = Daemon(program, POLICY)
    channel = grpc.insecure_channel(daemon.grpc)
    for version in ("v1", "v1alpha"):
        reflection = Reflection(channel, version)
        answer = reflection.ask(Ask(host="h", list_services="*"))[0]
        names = [s.name for s in answer.list_services_response.service]
        tap.check(f"{version}: services are listed",
                  PACKAGE + "RateLimitService" in names and
                  "grpc.health.v1.Health" in names, names)
        tap.same(f"{version}: the question comes back",
                 [answer.valid_host, answer.original_request.list_services],
                 ["h", "*"])
        answer = reflection.ask(Ask(file_containing_symbol="no.such"))[0]
        tap.same(f"{version}: what there is not",
                 answer.error_response.error_code, 5)
    pool = learn(reflection)
    factory = message_factory.MessageFactory(pool)
    kinds = [factory.GetPrototype(pool.FindMessageTypeByName(PACKAGE + name))
             for name in ("RateLimitRequest", "RateLimitResponse")]
    asked = request("api", {"user": "ann", "-hits": 2, "-limit": (3, 4),
                            "-negative": True}, hits=7)
    learned = kinds[0].FromString(asked.SerializeToString())
    tap.same("a request by what was learned is the same request",
             learned.SerializeToString(), asked.SerializeToString())
    tap.same("and nothing in it is unknown", [
        learned.descriptors[0].hits_addend.value,
        learned.descriptors[0].limit.requests_per_unit,
        learned.descriptors[0].is_negative_hits, learned.hits_addend],
        [2, 3, True, 7])
    call = channel.unary_unary(SHOULD, kinds[0].SerializeToString,
                               kinds[1].FromString)
    answer = call(kinds[0].FromString(request(
        "api", {"user": "bob"}).SerializeToString()), timeout=60)
    tap.same("so is the answer", [answer.overall_code,
                                  answer.statuses[0].current_limit.name,
                                  answer.statuses[0].limit_remaining],
             [1, "api", 8])
    service = pool.FindServiceByName("grpc.health.v1.Health")
    tap.same("methods are there", sorted(service.methods_by_name),
             ["Check", "Watch"])
    daemon.stop()


def main():
    tap = Tap()
    test_token(tap, sys.argv[1])
    test_tls(tap, sys.argv[1])
    test_reflection(tap, sys.argv[1])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
