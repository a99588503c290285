// rate-limiter-flexible in the row of libraries and in the row of Redis.
//
//   rivals.js MODULES memory KEYS SECONDS
//   rivals.js MODULES redis PORT KEYS SECONDS BURST   64 decisions at once
//
// MODULES is the folder with rate-limiter-flexible and ioredis. Prints CPU time
// of the process per decision, and resident bytes per key. Each run is made
// twice, and the second is measured; `total` and `admitted` count both.
'use strict';

const path = require('path');

const modules = process.argv[2];
const load = (name) => require(path.resolve(modules, name));
const { RateLimiterMemory, RateLimiterRedis } = load('rate-limiter-flexible');

function names(count) {
  const keys = [];
  for (let i = 0; i < count; i++) {
    keys.push('user:' + String(i).padStart(7, '0'));
  }
  return keys;
}

function resident() {
  if (global.gc) global.gc();
  return process.memoryUsage().rss;
}

let total = 0, admitted = 0;

// Call `run` twice. It resolves to how many decisions it made.
async function report(seconds, bytes, run) {
  total += await run(seconds);
  const cpu = process.cpuUsage();
  const began = process.hrtime.bigint();
  const done = await run(seconds);
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify({
    ns: (used.user + used.system) * 1000 / done, bytes, decisions: done,
    total: total + done, admitted,
    seconds: Number(process.hrtime.bigint() - began) / 1e9,
  }));
}

async function memory(count, seconds) {
  const keys = names(count);
  const limiter = new RateLimiterMemory({ points: 1000000, duration: 86400 });
  const before = resident();
  for (const key of keys) await limiter.consume(key, 1);
  const bytes = (resident() - before) / count;
  await report(seconds, bytes, async () => {
    const end = Date.now() + seconds * 1000;
    let x = 88172645, done = 0;
    while (Date.now() < end) {
      for (let i = 0; i < 4096; i++) {
        x ^= x << 13; x ^= x >>> 17; x ^= x << 5;
        await limiter.consume(keys[(x >>> 0) % count], 1);
      }
      done += 4096;
    }
    return done;
  });
}

async function redis(port, count, seconds, burst) {
  const Redis = load('ioredis');
  const client = new Redis(port, '127.0.0.1', {
    enableOfflineQueue: true, maxRetriesPerRequest: 1,
  });
  const limiter = new RateLimiterRedis({
    storeClient: client, points: burst, duration: 86400,
  });
  const keys = names(count);
  await report(seconds, 0, async () => {
    const end = Date.now() + seconds * 1000;
    let next = 0, done = 0;
    async function worker() {
      while (Date.now() < end) {
        try {
          await limiter.consume(keys[next++ % count], 1);
          admitted++;
        } catch (refused) {
          if (refused instanceof Error) throw refused;
        }
        done++;
      }
    }
    await Promise.all(Array.from({ length: 64 }, worker));
    return done;
  });
  client.disconnect();
}

const [kind, ...rest] = process.argv.slice(3);
(kind === 'memory' ? memory(...rest.map(Number)) : redis(...rest.map(Number)))
  .then(() => process.exit(0), (error) => {
    console.error(error);
    process.exit(1);
  });
