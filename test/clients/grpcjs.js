// grpcjs -- @grpc/grpc-js against the grpc door.
//
// usage: node grpcjs.js HOST:PORT FOLDER-OF-NODE-MODULES; answers TAP. The
// daemon has a limit `api` of 3/day per user, on the job `api`.
'use strict';

const path = require('path');

const [where, modules] = process.argv.slice(2);
const load = (name) => require(path.join(modules, name));
const grpc = load('@grpc/grpc-js');
const loader = load('@grpc/proto-loader');

let cases = 0;
let failed = 0;

function same(name, got, want) {
  const [is, must] = [JSON.stringify(got), JSON.stringify(want)];

  cases += 1;
  failed += is !== must;
  console.log(`${is === must ? 'ok' : 'not ok'} ${cases} - ${name}`);
  if (is !== must)
    console.log(`# got  ${is}\n# want ${must}`);
}

function service(file, name) {
  const proto = loader.loadSync(path.join(__dirname, file), {enums: String});
  const found = name.split('.').reduce(
    (at, word) => at[word], grpc.loadPackageDefinition(proto));

  return new found(where, grpc.credentials.createInsecure());
}

function ask(client, method, message) {
  return new Promise((resolve) => {
    client[method](message, {deadline: Date.now() + 10000},
      (error, answer) => resolve(error ? {error: error.code,
        details: error.details} : answer));
  });
}

async function main() {
  const rls = service('rls.proto',
    'envoy.service.ratelimit.v3.RateLimitService');
  const health = service('health.proto', 'grpc.health.v1.Health');
  const ann = {domain: 'api', descriptors: [
    {entries: [{key: 'user', value: 'ann'}]}]};
  const codes = [];

  for (let i = 0; i < 4; i++)
    codes.push((await ask(rls, 'ShouldRateLimit', ann)).overallCode);
  same('three pass and the fourth does not', codes,
    ['OK', 'OK', 'OK', 'OVER_LIMIT']);
  const denied = await ask(rls, 'ShouldRateLimit', ann);
  same('a denial has numbers', denied.statuses[0].currentLimit,
    {requestsPerUnit: 3, unit: 'DAY', name: 'api'});
  same('and a body', JSON.parse(denied.rawBody).code, 'RATE_LIMITED');
  const many = await Promise.all(Array.from({length: 200}, (_, i) =>
    ask(rls, 'ShouldRateLimit', {domain: 'api', descriptors: [
      {entries: [{key: 'user', value: `u${i % 100}`}]}]})));
  same('two hundred at once', many.filter(
    (answer) => answer.overallCode === 'OK').length, 200);
  same('nothing is an error', (await ask(rls, 'ShouldRateLimit', {})),
    {error: 3, details: 'rate limit domain must not be empty'});
  same('health', (await ask(health, 'Check', {})).status, 'SERVING');
  const seen = await new Promise((resolve) => {
    const call = health.Watch({});

    call.on('data', (answer) => {
      resolve(answer.status);
      call.cancel();
    });
    call.on('error', () => {});
  });
  same('and to be watched', seen, 'SERVING');
  console.log(`1..${cases}`);
  rls.close();
  health.close();
  process.exitCode = failed ? 1 : 0;
}

main();
