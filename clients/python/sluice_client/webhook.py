"""Verifies the signature of a webhook, as a route with `verify` does."""

import base64
import binascii
import hashlib
import hmac
import time


class WebhookError(Exception):
    """The webhook is not valid; the text says why."""


def verify_webhook(body, headers, secret, *, scheme="standard-webhooks",
                   tolerance=300, header=None, now=None):
    """Raise WebhookError unless `body` (bytes) has a valid signature.

    `headers` is a mapping; names compare without case. `secret` is a text, or
    a list of them. `scheme` is "standard-webhooks", "stripe" or
    "hmac-sha256". `header` replaces the name of the signature's header; for
    standard-webhooks it is the prefix of the three names.
    """
    found = {name.lower(): value for name, value in headers.items()}
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or not all(secrets):
        raise ValueError("verify_webhook() needs a secret")
    now = time.time() if now is None else now
    if isinstance(body, str):
        body = body.encode()
    schemes = {"standard-webhooks": _standard, "stripe": _stripe,
               "hmac-sha256": _plain}
    if scheme not in schemes:
        raise ValueError(f'unknown scheme "{scheme}"; the schemes are '
                         + ", ".join(schemes))
    schemes[scheme](body, found, secrets, tolerance, header, now)


def _need(headers, name):
    if not headers.get(name):
        raise WebhookError(f"the header {name} is missing")
    return headers[name]


def _check_time(text, tolerance, now):
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise WebhookError("its timestamp is not a number of seconds")
    if now - int(text) > tolerance:
        raise WebhookError("it was sent too long ago")
    if int(text) - now > tolerance:
        raise WebhookError("its timestamp is in the future")


def _match(made, given):
    """Compare every pair, in constant time."""
    good = False
    for one in made:
        for other in given[:16]:
            good |= hmac.compare_digest(one, other)
    if not good:
        raise WebhookError("its signature is wrong")


def _sign(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def _standard(body, headers, secrets, tolerance, header, now):
    prefix = header or "webhook"
    id_ = _need(headers, prefix + "-id")
    sent = _need(headers, prefix + "-timestamp")
    signatures = _need(headers, prefix + "-signature")
    _check_time(sent, tolerance, now)
    data = f"{id_}.{sent}.".encode() + body
    keys = []
    for secret in secrets:
        text = secret[6:] if secret.startswith("whsec_") else secret
        try:
            keys.append(base64.b64decode(text, validate=True))
        except binascii.Error:
            raise ValueError("a secret of standard-webhooks is whsec_ and "
                             "base64") from None
    given = [_decode(word[3:]) for word in signatures.split(" ")
             if word.startswith("v1,")]
    _match([_sign(key, data) for key in keys], given)


def _stripe(body, headers, secrets, tolerance, header, now):
    words = _need(headers, (header or "stripe-signature").lower()).split(",")
    pairs = [word.strip().partition("=") for word in words]
    sent = [value for name, _, value in pairs if name == "t"]
    if len(sent) != 1:
        raise WebhookError("its timestamp is not a number of seconds")
    _check_time(sent[0], tolerance, now)
    data = sent[0].encode() + b"." + body
    given = [_unhex(value) for name, _, value in pairs if name == "v1"]
    _match([_sign(secret.encode(), data) for secret in secrets], given)


def _plain(body, headers, secrets, tolerance, header, now):
    text = _need(headers, (header or "x-hub-signature-256").lower())
    if text.startswith("sha256="):
        text = text[7:]
    given = [_unhex(text) if len(text) == 64 else _decode(text)]
    _match([_sign(secret.encode(), body) for secret in secrets], given)


def _decode(text):
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _unhex(text):
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
