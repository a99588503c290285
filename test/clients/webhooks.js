// webhooks.js -- webhooks signed by those who know best, and verified by them.
//
//   node webhooks.js MODULES sign|verify ...; what is signed goes to sluice.
'use strict';

const path = require('path');

const [modules, what, ...words] = process.argv.slice(2);
const { Webhook } = require(path.join(modules, 'standardwebhooks'));
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
  // SECRET SIGNATURE BODY
  'verify-stripe': (secret, signature, body) => {
    stripe.webhooks.constructEvent(body, signature, secret);
    return 'good';
  },
};

process.stdout.write(doers[what](...words));
