// webhooks.js -- webhooks signed by those who know best, and verified by them.
//
//   node webhooks.js MODULES sign|verify ...; what is signed goes to sluice.
'use strict';

const path = require('path');

const [modules, what, ...words] = process.argv.slice(2);
const { Webhook } = require(path.join(modules, 'standardwebhooks'));
const crypto = require('crypto');
const svix = require(path.join(modules, 'svix'));
const Stripe = require(path.join(modules, 'stripe'));
const stripe = new Stripe('sk_test_unused');

const doers = {
  // SECRET ID SECONDS BODY: the value of webhook-signature
  'sign-standard': (secret, id, seconds, body) =>
    new Webhook(secret).sign(id, new Date(1000 * seconds), body),
  // SECRET SECONDS BODY: the value of stripe-signature
  'sign-stripe': (secret, seconds, body) =>
    stripe.webhooks.generateTestHeaderString(
      { payload: body, secret, timestamp: Number(seconds) }),
  // SECRET ID SECONDS SIGNATURE BODY
  'verify-standard': (secret, id, seconds, signature, body) => {
    new Webhook(secret).verify(body, {
      'webhook-id': id,
      'webhook-timestamp': seconds,
      'webhook-signature': signature,
    });
    return 'good';
  },
  'sign-svix': (secret, id, seconds, body) =>
    new svix.Webhook(secret).sign(id, new Date(1000 * seconds), body),
  'verify-svix': (secret, id, seconds, signature, body) => {
    new svix.Webhook(secret).verify(body, {
      'webhook-id': id,
      'webhook-timestamp': seconds,
      'webhook-signature': signature,
    });
    return 'good';
  },
  // ed25519, by node: a key pair, "whsk_... whpk_..."
  'make-key': () => {
    const { privateKey } = crypto.generateKeyPairSync('ed25519');
    const { d, x } = privateKey.export({ format: 'jwk' });
    const part = (text) => Buffer.from(text, 'base64url');
    return `whsk_${Buffer.concat([part(d), part(x)]).toString('base64')}` +
      ` whpk_${part(x).toString('base64')}`;
  },
  'sign-v1a': (secret, id, seconds, body) => {
    const bytes = Buffer.from(secret.slice(5), 'base64');
    const key = crypto.createPrivateKey({ format: 'jwk', key: {
      kty: 'OKP', crv: 'Ed25519', d: bytes.subarray(0, 32).toString('base64url'),
      x: bytes.subarray(32).toString('base64url') } });
    return 'v1a,' + crypto.sign(null, Buffer.from(`${id}.${seconds}.${body}`),
      key).toString('base64');
  },
  'verify-v1a': (secret, id, seconds, signature, body) => {
    const key = crypto.createPublicKey({ format: 'jwk', key: {
      kty: 'OKP', crv: 'Ed25519',
      x: Buffer.from(secret.slice(5), 'base64').toString('base64url') } });
    const [, sign] = signature.split('v1a,');
    return crypto.verify(null, Buffer.from(`${id}.${seconds}.${body}`), key,
      Buffer.from(sign, 'base64')) ? 'good' : 'bad';
  },
  // SECRET SIGNATURE BODY
  'verify-stripe': (secret, signature, body) => {
    stripe.webhooks.constructEvent(body, signature, secret);
    return 'good';
  },
};

process.stdout.write(doers[what](...words));
