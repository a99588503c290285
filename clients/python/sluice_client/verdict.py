"""Verdicts: what a check answers, and what goes into a response."""

import json
import math


class SluiceError(Exception):
    """A call failed. `failure` says how:

    "timeout", "unreachable", "malformed" (the answer is not a verdict),
    "status" (5xx, 3xx or 429), "open" (the circuit breaker), or None if the
    daemon refused the request: RefusedError.
    """

    status = code = detail = None

    def __init__(self, text, failure="malformed"):
        super().__init__(text)
        self.failure = failure


class RefusedError(SluiceError):
    """The daemon answered with an error instead of a verdict.

    `status`, `code` and `detail` are those of its answer.
    """

    def __init__(self, status, code, detail):
        refused = 400 <= status < 500 and status != 429
        super().__init__(detail or f"the daemon answered {status}",
                         None if refused else "status")
        self.status = status
        self.code = code
        self.detail = detail


class DeniedError(Exception):
    """A hold was denied. `verdict` says why."""

    def __init__(self, verdict):
        super().__init__(verdict.message or f"denied by {verdict.by}")
        self.verdict = verdict


class Verdict:
    """The answer to one check.

    `failure` is None, or why the daemon did not decide (see SluiceError); the
    verdict is then that of `on_failure`. `limit`, `remaining` and `reset_ms`
    are those of the limit in `by`, else of the enforced limit with the
    smallest share left; None without numbers. `raw` is the JSON object.
    """

    __slots__ = ("allowed", "status", "code", "message", "by",
                 "retry_after_ms", "request_id", "degraded", "hold", "limits",
                 "headers", "append_headers", "body", "raw", "failure", "limit",
                 "remaining", "reset_ms", "wait_ms")

    def __init__(self, raw, failure=None):
        self.raw = raw
        self.failure = failure
        self.allowed = raw["allowed"]
        self.status = raw["status"]
        self.code = raw.get("code")
        self.message = raw.get("message")
        self.by = raw.get("by")
        self.retry_after_ms = raw.get("retry_after_ms")
        self.request_id = raw.get("request_id")
        self.degraded = bool(raw.get("degraded"))
        self.hold = raw.get("hold")
        self.limits = raw.get("limits", [])
        self.headers = raw.get("headers", {})
        self.append_headers = raw.get("append_headers", [])
        self.body = raw.get("body")
        shown = shown_limit(self.by, self.limits)
        self.limit = shown.get("limit")
        self.remaining = shown.get("remaining")
        self.reset_ms = shown.get("reset_ms")
        self.wait_ms = max([0, *(limit.get("wait_ms") or 0
                                 for limit in self.limits)])

    def __repr__(self):
        word = "allowed" if self.allowed else f"denied by {self.by}"
        return f"<Verdict {self.status} {word}>"

    def body_bytes(self):
        """The body of a denial, as bytes."""
        if self.body is None:
            return b""
        if isinstance(self.body, str):
            return self.body.encode()
        return json.dumps(self.body, separators=(",", ":"),
                          ensure_ascii=False).encode()


def shown_limit(by, limits):
    """The limit whose numbers are shown, or {}."""
    least, shown = None, {}
    for limit in limits:
        if limit.get("name") == by and by is not None:
            return limit
        count, remaining = limit.get("limit"), limit.get("remaining")
        if limit.get("mode") != "enforce" or count is None or \
                remaining is None:
            continue
        share = remaining / count if count else 0
        if least is None or share < least:
            least, shown = share, limit
    return shown


def parse_verdict(value):
    """The Verdict of a JSON value. Raises SluiceError if it is none."""
    if not isinstance(value, dict):
        raise SluiceError("the answer is not a verdict")
    allowed, status = value.get("allowed"), value.get("status")
    if not isinstance(allowed, bool):
        raise SluiceError('the answer has no boolean "allowed"')
    if type(status) is not int or not 100 <= status <= 599:
        raise SluiceError('the answer has no valid "status"')
    if not is_text_map(value.get("headers", {})):
        raise SluiceError('"headers" of the answer is not a map of texts')
    appended = value.get("append_headers", [])
    if not isinstance(appended, list) or \
            not all(isinstance(name, str) for name in appended):
        raise SluiceError('"append_headers" of the answer is not a list of '
                          "names")
    limits = value.get("limits", [])
    if not isinstance(limits, list) or \
            not all(isinstance(limit, dict) for limit in limits):
        raise SluiceError('"limits" of the answer is not a list of objects')
    if not all(is_number(limit.get(name)) for limit in limits
               for name in ("limit", "remaining", "reset_ms", "wait_ms")):
        raise SluiceError("a limit of the answer has an invalid number")
    for name in ("hold", "by", "code", "message"):
        if not isinstance(value.get(name), (str, type(None))):
            raise SluiceError(f'"{name}" of the answer is not a text')
    if not is_number(value.get("retry_after_ms")):
        raise SluiceError('"retry_after_ms" of the answer is not a number')
    return Verdict(value)


def is_number(value):
    return value is None or \
        type(value) in (int, float) and math.isfinite(value)


def is_text_map(value):
    """Is `value` an object of texts that can be header lines?"""
    return isinstance(value, dict) and all(
        isinstance(text, str) and not set("\r\n\0") & set(name + text)
        for name, text in value.items())


PROBLEM = "https://iana.org/assignments/http-problem-types"


def failure_verdict(allowed, failure, request_id=None):
    """The verdict of `on_failure`: allowed, or 503 and never 429."""
    raw = base_verdict(request_id)
    if not allowed:
        deny(raw, 503, "SERVICE_UNAVAILABLE", "Service unavailable",
             "The limits of this request cannot be checked at the moment. "
             "Try again shortly.", "#temporary-reduced-capacity", 1000)
    return Verdict(raw, failure)


def local_verdict(taken, failure, request_id=None):
    """The verdict of the local rate; `taken` is what LocalRate.take() says."""
    allowed, limit, remaining, reset_ms, retry_ms = taken
    raw = base_verdict(request_id)
    raw["limits"] = [{"name": "local", "limit": limit, "remaining": remaining,
                      "reset_ms": reset_ms, "retry_after_ms": retry_ms,
                      "mode": "enforce", "allowed": allowed}]
    if not allowed:
        deny(raw, 429, "RATE_LIMITED", "Too many requests",
             "Too many requests. Try again later.", "#quota-exceeded",
             retry_ms)
    return Verdict(raw, failure)


def base_verdict(request_id):
    return {"allowed": True, "status": 200, "code": None, "message": None,
            "by": None, "retry_after_ms": None, "request_id": request_id,
            "degraded": True, "hold": None, "limits": [], "headers": {},
            "append_headers": [], "body": None}


def deny(raw, status, code, title, message, kind, retry_ms):
    body = {"type": PROBLEM + kind, "title": title, "status": status,
            "detail": message, "code": code}
    headers = {"Content-Type": "application/problem+json"}
    if retry_ms is not None:
        seconds = max(1, -(-retry_ms // 1000))
        headers["Retry-After"] = str(seconds)
        body.update(retry_after=seconds, retry_after_ms=retry_ms)
    headers["Cache-Control"] = "no-store"
    raw.update(allowed=False, status=status, code=code, message=message,
               retry_after_ms=retry_ms, headers=headers, body=body)


def merge_headers(present, verdict, keep_type=False):
    """The headers of a response with those of the verdict.

    `present` is a list of (name, value) that the application has set. Its
    values stay. Lists that `append_headers` names are joined, without
    repeating an item. Content-Type belongs to the body: of a denial it is
    that of the verdict, unless `keep_type`.
    """
    merged = list(present)
    if not verdict.allowed and not keep_type and \
            "content-type" in map(str.lower, verdict.headers):
        merged = [(name, value) for name, value in merged
                  if name.lower() != "content-type"]
    appended = {name.lower() for name in verdict.append_headers}
    index = {}
    for at, (name, _) in enumerate(merged):
        index.setdefault(name.lower(), at)
    for name, value in verdict.headers.items():
        lower = name.lower()
        if lower == "content-type" and (verdict.allowed or keep_type):
            continue
        if lower not in index:
            index[lower] = len(merged)
            merged.append((name, value))
        elif lower in appended:
            at = index[lower]
            merged[at] = (merged[at][0], join_list(merged[at][1], value))
    return merged


def join_list(present, added):
    """Two comma-separated lists as one; items compare without case."""
    items = [item.strip() for item in present.split(",") if item.strip()]
    seen = {item.lower() for item in items}
    if "*" in seen:
        return present
    for item in added.split(","):
        item = item.strip()
        if item and item.lower() not in seen:
            seen.add(item.lower())
            items.append(item)
    return ", ".join(items)
