"""messages.py -- the bytes that each protocol asks with.

The same keys for every server: `user:0000000` and on. A limit is 10,000 a day
with a burst of a million, so that every key stays live and no request is denied.
"""
import json

DAY = 86400


def keys(count):
    return [f"user:{number:07d}" for number in range(count)]


def resp(*words):
    """A command of the Redis protocol."""
    out = b"*%d\r\n" % len(words)
    for word in words:
        word = str(word).encode()
        out += b"$%d\r\n%s\r\n" % (len(word), word)
    return out


def get(path, *headers):
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode()


def post(path, body):
    body = json.dumps(body, separators=(",", ":"))
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


# ---- protocol buffers ----

def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A number, or bytes or text with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def should_rate_limit(domain, name, value):
    """envoy.service.ratelimit.v3.RateLimitRequest with one descriptor."""
    entry = field(1, name) + field(2, value)
    return field(1, domain) + field(2, field(1, entry)) + field(3, 1)


def throttle(key, burst, refill):
    """throttlecrab.ThrottleRequest."""
    return (field(1, key) + field(2, burst) + field(3, refill) + field(4, DAY) +
            field(5, 1))


def get_rate_limits(key, burst):
    """pb.gubernator.GetRateLimitsReq with one request: a leaky bucket would
    have no burst, so it is a token bucket of a day."""
    request = (field(1, "bench") + field(2, key) + field(3, 1) +
               field(4, burst) + field(5, DAY * 1000))
    return field(1, request)
