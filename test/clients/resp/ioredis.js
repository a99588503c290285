// ioredis.js -- what ioredis sees: ioredis.js HOST PORT PASSWORD KEY
"use strict";
const Redis = require("ioredis");

const [host, port, password, key] = process.argv.slice(2);
const client = new Redis({ host, port: Number(port), password });

// A map, or a flat array of names and values.
function members(reply) {
  if (!Array.isArray(reply)) return reply instanceof Map
    ? Object.fromEntries(reply) : reply;
  const map = {};
  for (let i = 0; i < reply.length; i += 2) map[reply[i]] = reply[i + 1];
  return map;
}

async function check(...words) {
  return members(await client.call("SLUICE.CHECK", "GET", "/x", "user", key,
    ...words));
}

async function main() {
  console.log(await client.ping());
  for (let i = 0; i < 4; i++)
    console.log(...await client.call("CL.THROTTLE", key, 2, 1, 1));
  console.log(...await client.call("CL.THROTTLE", key, 2, 1, 1, -1));
  const pipeline = client.pipeline();
  for (const quantity of [1, 4, 1])
    pipeline.call("CL.THROTTLE", `${key}:p`, 4, 1, 1, quantity);
  for (const [, reply] of await pipeline.exec())
    console.log(reply[0], reply[2]);
  let seen = await check();
  console.log(Number(seen.allowed), seen.status, seen.limit, seen.remaining);
  await check("cost", 4);
  seen = await check();
  console.log(Number(seen.allowed), seen.status, seen.by, seen.retry_after_ms);
  await client.call("NONSENSE").catch((why) =>
    console.log(why.message.split(" ")[1]));
  await client.quit();
}

main().catch((why) => {
  console.error(why);
  process.exit(1);
});
