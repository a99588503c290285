// noderedis.js -- what node-redis sees: noderedis.js HOST PORT PASSWORD KEY
"use strict";
const { createClient } = require("redis");

const [host, port, password, key] = process.argv.slice(2);
const client = createClient({
  socket: { host, port: Number(port) }, password, name: "node",
});

// A map, or a flat array of names and values.
function members(reply) {
  if (!Array.isArray(reply)) return reply instanceof Map
    ? Object.fromEntries(reply) : reply;
  const map = {};
  for (let i = 0; i < reply.length; i += 2) map[reply[i]] = reply[i + 1];
  return map;
}

function throttle(...words) {
  return client.sendCommand(["CL.THROTTLE", ...words.map(String)]);
}

async function check(...words) {
  return members(await client.sendCommand(["SLUICE.CHECK", "GET", "/x", "user",
    key, ...words]));
}

async function main() {
  await client.connect();
  console.log(await client.ping());
  for (let i = 0; i < 4; i++) console.log(...await throttle(key, 2, 1, 1));
  console.log(...await throttle(key, 2, 1, 1, -1));
  const replies = await Promise.all([1, 4, 1].map((quantity) =>
    throttle(`${key}:p`, 4, 1, 1, quantity))); // sent together
  for (const reply of replies) console.log(reply[0], reply[2]);
  let seen = await check();
  console.log(Number(seen.allowed), seen.status, seen.limit, seen.remaining);
  await check("cost", "4");
  seen = await check();
  console.log(Number(seen.allowed), seen.status, seen.by, seen.retry_after_ms);
  await client.sendCommand(["NONSENSE"]).catch((why) =>
    console.log(why.message.split(" ")[1]));
  await client.close();
}

main().catch((why) => {
  console.error(why);
  process.exit(1);
});
