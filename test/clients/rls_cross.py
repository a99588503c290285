#!/usr/bin/python3
"""rls_cross -- our codec of Envoy's messages against Google's.

Random messages are written by protobuf, read and written again by ours
(rls_tool), and read by protobuf: they must be the same. Then bytes are changed
at random: whatever ours takes protobuf takes too, and reads alike; and what
protobuf takes ours refuses only for a reason that protobuf does not know.

usage: rls_cross.py RLS_TOOL [SEED]
"""

import os
import random
import subprocess
import sys
import warnings

import protos

PACKAGE = "envoy.service.ratelimit.v3."
OUR_REASONS = (
    "rate limit domain must not be empty",
    "rate limit descriptor list must not be empty",
    "an entry has no key",
    "the request has more than",
    "a descriptor has more than",
    "the descriptors have more than",
    # Of a tag with more than 32 bits protobuf drops those it has no room for.
    "not a RateLimitRequest: a field has an invalid number",
)
find = protos.load("rls.proto")
Request = find(PACKAGE + "RateLimitRequest")
Response = find(PACKAGE + "RateLimitResponse")


class Tool:
    """The program that speaks for us."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def again(self, letter, data):
        """The bytes that it writes, or the sentence of its refusal."""
        self.process.stdin.write(f"{letter} {data.hex()}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().rstrip("\n")
        if line.startswith("bad "):
            return None, line[4:]
        return bytes.fromhex(line), None


def text(rng, least=0):
    pool = "abcxyz/._-09 é€😀"
    size = rng.choice([least, 1, 3, 20, 130, 300])
    return "".join(rng.choice(pool) for _ in range(max(size, least)))


def number(rng, bits):
    return rng.choice([0, 1, 127, 128, 2**bits - 1, rng.getrandbits(bits)])


def make_request(rng):
    request = Request(domain=text(rng, 1), hits_addend=number(rng, 32))
    for _ in range(rng.choice([1, 1, 2, 5, 16])):
        descriptor = request.descriptors.add()
        for _ in range(rng.choice([0, 1, 2, 5, 30])):
            descriptor.entries.add(key=text(rng, 1), value=text(rng))
        if rng.random() < 0.3:
            descriptor.limit.requests_per_unit = number(rng, 32)
            descriptor.limit.unit = rng.randrange(8)
        if rng.random() < 0.3:
            descriptor.hits_addend.value = number(rng, 64)
        descriptor.is_negative_hits = rng.random() < 0.2
    return request


def make_response(rng):
    response = Response(overall_code=rng.randrange(3))
    for _ in range(rng.choice([0, 1, 2, 5, 64])):
        status = response.statuses.add(code=rng.randrange(3))
        if rng.random() < 0.7:
            status.current_limit.requests_per_unit = number(rng, 32)
            status.current_limit.unit = rng.randrange(9)
            status.current_limit.name = text(rng)
        status.limit_remaining = number(rng, 32)
        if rng.random() < 0.7:
            status.duration_until_reset.seconds = number(rng, 30)
            status.duration_until_reset.nanos = rng.randrange(10**9)
    for _ in range(rng.choice([0, 1, 5, 48])):
        response.response_headers_to_add.add(key=text(rng), value=text(rng))
    # Names are written in lower case; these are.
    response.raw_body = text(rng).encode()
    return response


def parse(kind, data):
    message = kind()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            message.ParseFromString(data)
        except Exception:  # DecodeError, and of strings that are none: others
            return None
    if warned:  # there is something behind what it takes for the end
        return None
    message.DiscardUnknownFields()
    return message


def damage(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(data) + 1)
        act = rng.randrange(4)
        if act == 0 and place < len(data):
            data[place] = rng.randrange(256)
        elif act == 1:
            data[place:place] = bytes([rng.randrange(256)])
        elif act == 2 and place < len(data):
            del data[place]
        else:
            end = rng.randrange(len(data) + 1)
            data[place:place] = data[min(place, end):max(place, end)]
    return bytes(data)


def same_messages(tool, rng, rounds):
    for _ in range(rounds):
        for letter, kind, make in (("q", Request, make_request),
                                   ("a", Response, make_response)):
            message = make(rng)
            again, why = tool.again(letter, message.SerializeToString())
            if again is None and why.startswith(OUR_REASONS):
                continue
            if again is None or parse(kind, again) != message:
                print(f"# {why}\n# {message}"[:2000])
                return False
    return True


def same_damage(tool, rng, rounds):
    taken = 0
    # What is wrong with texts it says on standard error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for _ in range(rounds):
        data = damage(rng, make_request(rng).SerializeToString())
        theirs = parse(Request, data)
        ours, why = tool.again("q", data)
        if ours is not None:
            taken += 1
        wrong = (ours is None) != (theirs is None)
        if ours is None and why.startswith(OUR_REASONS):
            wrong = False
        if ours is not None and theirs is not None:
            wrong = parse(Request, ours) != theirs
        if wrong:
            print(f"# ours: {why}; bytes: {data.hex()[:2000]}")
            return False
    print(f"# {taken} of {rounds} damaged requests were still requests")
    return rounds // 50 < taken < rounds


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    rng = random.Random(seed)
    tool = Tool(sys.argv[1])
    tests = (
        ("random messages come back as they were", same_messages, 500),
        ("damaged messages are read alike or refused by both", same_damage,
         2000),
    )
    failed = 0
    for at, (name, run, rounds) in enumerate(tests, 1):
        good = run(tool, rng, rounds)
        failed += not good
        print(f"{'ok' if good else 'not ok'} {at} - {name}")
    print(f"1..{len(tests)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
