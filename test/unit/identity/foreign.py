#!/usr/bin/python3
"""Tokens of another maker, PyJWT, one line each: NAME <tab> KEYS <tab> TOKEN.

The keys are fresh in every run. KEYS is the JWKS that verifies the token; where
NAME begins with "not ", the token looks right and must not be believed.
"""
import base64
import json
import os

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import (
    ec, ed448, ed25519, padding, rsa)
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature)
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CLAIMS = {
    "sub": "ann", "aud": ["api", "web"], "iss": "https://id.example/",
    "iat": 1700000000, "exp": 2000000000, "org": {"id": 42},
    "roles": ["member", "admin"], "name": "Ænn \u6f22",
}


def text(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def number(n, size=None):
    return text(n.to_bytes(size or (n.bit_length() + 7) // 8, "big"))


def rsa_key(bits):
    key = rsa.generate_private_key(65537, bits)
    public = key.public_key().public_numbers()
    return key, {"kty": "RSA", "n": number(public.n), "e": number(public.e)}


def ec_key(name, curve, size):
    key = ec.generate_private_key(curve)
    public = key.public_key().public_numbers()
    return key, {"kty": "EC", "crv": name, "x": number(public.x, size),
                 "y": number(public.y, size)}


def okp_key(name, maker):
    key = maker.generate()
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return key, {"kty": "OKP", "crv": name, "x": text(raw)}


def oct_key(size):
    key = os.urandom(size)
    return key, {"kty": "oct", "k": text(key)}


def put(name, signer, pair, kid=None, **more):
    key, jwk = pair
    jwk = dict(jwk, **more)
    if kid:
        jwk["kid"] = kid
    token = jwt.encode(CLAIMS, key, algorithm=signer,
                       headers={"kid": kid} if kid else None)
    print(name, json.dumps({"keys": [jwk]}), token, sep="\t")


def put_wrong(name, alg, jwk, sign):
    signed = text(json.dumps({"alg": alg}).encode()) + "."
    signed += text(json.dumps(CLAIMS).encode())
    token = signed + "." + text(sign(signed.encode()))
    print("not " + name, json.dumps({"keys": [jwk]}), token, sep="\t")


def wrong():
    key, jwk = rsa_key(2048)
    sha = hashes.SHA256()
    pem = key.public_key().public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def mac(data):
        made = HMAC(pem, sha)
        made.update(data)
        return made.finalize()

    def salted(size):
        pss = padding.PSS(padding.MGF1(sha), size)
        return lambda data: key.sign(data, pss, sha)

    def other_mask(data):
        pss = padding.PSS(padding.MGF1(hashes.SHA1()), 32)
        return key.sign(data, pss, sha)

    put_wrong("an HMAC by the public key", "HS256", jwk, mac)
    put_wrong("unsigned", "none", jwk, lambda data: b"none")
    put_wrong("a salt of 0 bytes", "PS256", jwk, salted(0))
    put_wrong("a salt of 20 bytes", "PS256", jwk, salted(20))
    put_wrong("a salt of 33 bytes", "PS256", jwk, salted(33))
    put_wrong("another mask", "PS256", jwk, other_mask)
    put_wrong("PS256 called RS256", "RS256", jwk, salted(32))
    put_wrong("RS256 called PS256", "PS256", jwk,
              lambda data: key.sign(data, padding.PKCS1v15(), sha))
    put_wrong("RS256 by a shorter hash", "RS256", jwk,
              lambda data: key.sign(data, padding.PKCS1v15(), hashes.SHA1()))
    put_wrong("RS256 with a zero before it", "RS256", jwk,
              lambda data: b"\0" + key.sign(data, padding.PKCS1v15(), sha))
    key2, jwk2 = ec_key("P-256", ec.SECP256R1(), 32)
    put_wrong("ES256 in DER", "ES256", jwk2,
              lambda data: key2.sign(data, ec.ECDSA(sha)))
    put_wrong("ES256 by a longer hash", "ES256", jwk2, lambda data: raw_pair(
        key2.sign(data, ec.ECDSA(hashes.SHA512()))))


def raw_pair(der):
    r, s = decode_dss_signature(der)
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def main():
    two, three = rsa_key(2048), rsa_key(3072)
    for size in "256", "384", "512":
        put("RS" + size, "RS" + size, two, kid="rsa " + size, use="sig")
        put("PS" + size, "PS" + size, three, alg="PS" + size)
    put("ES256", "ES256", ec_key("P-256", ec.SECP256R1(), 32), kid="é")
    put("ES384", "ES384", ec_key("P-384", ec.SECP384R1(), 48), alg="ES384")
    put("ES512", "ES512", ec_key("P-521", ec.SECP521R1(), 66))
    put("Ed25519", "EdDSA", okp_key("Ed25519", ed25519.Ed25519PrivateKey),
        key_ops=["verify"])
    put("Ed448", "EdDSA", okp_key("Ed448", ed448.Ed448PrivateKey), alg="EdDSA")
    put("HS256", "HS256", oct_key(32), kid="a")
    put("HS384", "HS384", oct_key(48), alg="HS384")
    put("HS512", "HS512", oct_key(64))
    put("HS512, long", "HS512", oct_key(200))
    wrong()


main()
