/* schema_keys.c -- which keys a policy has, and where. */
#include "problems.h"
#include "row.h"

static const struct problem good[] = {
    ROW("the least there is", "sluice: 1\n", "{sluice: 1}", ""),
    ROW("the whole language",
        "sluice: 1\n"
        "env: prod\n"
        "enabled: true\n"
        "mode: shadow\n"
        "plans:\n"
        "  default: free\n"
        "  anonymous: free\n"
        "  unknown_plan: deny\n"
        "  free:\n"
        "  pro: {aliases: [A, B], overage: true}\n"
        "  one: {aliases: A}\n"
        "identity:\n"
        "  user: [header.x-user-id, ip]\n"
        "  org: header.x-org\n"
        "  plan: header.x-plan\n"
        "  role: header.x-role\n"
        "  device: [header.x-device]\n"
        "  trusted_proxies: [127.0.0.0/8, \"::1\"]\n"
        "  ipv6_prefix: 64\n"
        "  forwarded: forwarded\n"
        "  anonymous: [ip]\n"
        "limits:\n"
        "  a: {kind: token-bucket, per: user, rate: 5/min burst 8}\n"
        "  b:\n"
        "    kind: quota\n"
        "    per: [org, user]\n"
        "    missing: skip\n"
        "    rate: {free: 120/month, pro: unlimited, one: none}\n"
        "    unit: minutes\n"
        "    zone: UTC\n"
        "    anchor: 1\n"
        "    on_store_failure: local\n"
        "    deny: {status: 402, code: X, message: \"m {limit}\"}\n"
        "    key: \"k:{id}\"\n"
        "    lease: 10%\n"
        "    on_full: deny\n"
        "    refill: interval\n"
        "    mode: off\n"
        "    candidate: 10k/day\n"
        "    cost: 2k\n"
        "    thresholds: [50%, 100]\n"
        "    headers: none\n"
        "    penalty: {after: 5, within: 10m, block: 15m, growth: 3, most: "
        "12h}\n"
        "routes:\n"
        "  - match: GET /x\n"
        "    endpoint: x\n"
        "    anonymous: pass\n"
        "    feature: f\n"
        "    roles: admin\n"
        "    limits: a\n"
        "    report: a\n"
        "    quota: b\n"
        "    headers: [ietf, github]\n"
        "    reset: next\n"
        "    on_store_failure: deny\n"
        "  - {job: j, limits: [a, b]}\n"
        "default: []\n"
        "features: {f: {enabled: false, message: m, retry_after: 1h30m}}\n"
        "headers: [x-ratelimit, ietf, ietf-06, openai, kong]\n"
        "reset: full\n"
        "errors: {rate_limited: {status: 429, body: {a: [1, ~, \"{limit}\"]}}, "
        "conflict: {body: x}}\n"
        "server:\n"
        "  listen: {http: \"a:1\", grpc: \"a:2\", resp: \"a:3\", admin: "
        "\"a:4\"}\n"
        "  store: \"memory:\"\n"
        "  usage: \"sqlite:x\"\n"
        "  memory: 64MiB\n"
        "  deadline: 20ms\n"
        "  forward_auth: path\n"
        "  proxy_protocol: [http, resp]\n"
        "  access_token: \"${ENV:TOKEN}\"\n"
        "  admin_token: x\n"
        "  tls: {certificate: c, key: k, client_ca: a}\n"
        "  log: {level: warn, format: json}\n",
        "{sluice: 1, env: prod, enabled: true, mode: shadow, plans: {default: "
        "free, anonymous: free, unknown_plan: deny, free: {}, pro: {aliases: "
        "[A, B], overage: true}, one: {aliases: A}}, identity: {user: "
        "[header.x-user-id, ip], org: header.x-org, plan: header.x-plan, role: "
        "header.x-role, device: [header.x-device], trusted_proxies: "
        "[127.0.0.0/8, '::1'], ipv6_prefix: 64, forwarded: "
        "forwarded, anonymous: [ip]}, limits: {a: "
        "{kind: token-bucket, per: user, rate: 5/min burst 8}, b: {kind: "
        "quota, per: [org, user], missing: skip, rate: {free: 120/month, pro: "
        "unlimited, one: none}, unit: minutes, zone: UTC, anchor: 1, "
        "on_store_failure: local, deny: {status: 402, code: X, message: 'm "
        "{limit}'}, key: 'k:{id}', lease: 10%, on_full: deny, refill: "
        "interval, mode: off, candidate: 10k/day, cost: 2k, thresholds: "
        "[50%, 100], headers: none, penalty: {after: 5, within: 10m, block: "
        "15m, growth: 3, most: 12h}}}, "
        "routes: [{match: GET /x, endpoint: x, anonymous: pass, feature: f, "
        "roles: admin, limits: "
        "a, report: a, quota: b, headers: [ietf, github], reset: next, "
        "on_store_failure: deny}, {job: j, limits: [a, b]}], default: [], "
        "features: {f: {enabled: false, message: m, retry_after: 1h30m}}, "
        "headers: [x-ratelimit, ietf, ietf-06, openai, kong], reset: full, "
        "errors: {rate_limited: {status: 429, body: {a: [1, ~, '{limit}']}}, "
        "conflict: {body: x}}, server: {listen: {http: 'a:1', grpc: 'a:2', "
        "resp: 'a:3', admin: 'a:4'}, store: 'memory:', usage: 'sqlite:x', "
        "memory: 64MiB, deadline: 20ms, forward_auth: path, proxy_protocol: "
        "[http, resp], access_token: "
        "'s3cret', admin_token: x, tls: {certificate: c, key: k, client_ca: "
        "a}, log: {level: warn, format: json}}}",
        ""),
    ROW("maps may be left empty",
        "sluice: 1\n"
        "plans:\n"
        "identity:\n"
        "limits:\n"
        "features: ~\n"
        "errors: {forbidden: }\n"
        "server: null\n",
        "{sluice: 1, plans: {}, identity: {}, limits: {}, features: {}, "
        "errors: {forbidden: {}}, server: {}}",
        ""),
    ROW("values from outside fit where they are right",
        "sluice: 1\n"
        "enabled: \"${ENV:YES}\"\n"
        "limits: {a: {kind: quota, rate: \"${ENV:RATE}\"}}\n",
        "{sluice: 1, enabled: 'true', limits: {a: {kind: quota, rate: "
        "'5/min'}}}",
        ""),
    ROW("numbers and texts may be in quotes",
        "sluice: 1\n"
        "limits: {\"a\": {kind: \"quota\", rate: \"5/day\", cost: \"2\"}}\n",
        "{sluice: 1, limits: {a: {kind: 'quota', rate: '5/day', cost: '2'}}}",
        ""),
};

static const struct problem keys[] = {
    ROW("no version", "env: x\n", "{env: x}",
        "p.yaml:1:1: Missing key in a policy: \"sluice\"\n"
        "  env: x\n"
        "  ^\n"
        "  write: sluice: 1\n"),
    ROW("nothing at all", "", "{}",
        "p.yaml:1:1: Missing key in a policy: \"sluice\"\n"
        "  write: sluice: 1\n"),
    ROW("another version", "sluice: 2\n", "{sluice: !}",
        "p.yaml:1:9: \"sluice\" must be 1, not \"2\"\n"
        "  sluice: 2\n"
        "          ^\n"
        "  write: sluice: 1\n"),
    ROW("one in quotes", "sluice: \"1\"\n", "{sluice: !}",
        "p.yaml:1:9: \"sluice\" must be 1, not \"1\" in quotes\n"
        "  sluice: \"1\"\n"
        "          ^\n"
        "  write: sluice: 1\n"),
    ROW("a typo at the top",
        "sluice: 1\n"
        "limts: {}\n"
        "Routes: []\n",
        "{sluice: 1, limits: !, routes: !}",
        "p.yaml:2:1: Unknown key \"limts\" in a policy\n"
        "  limts: {}\n"
        "  ^\n"
        "  write: limits\n"
        "p.yaml:3:1: Unknown key \"Routes\" in a policy\n"
        "  Routes: []\n"
        "  ^\n"
        "  write: routes\n"),
    ROW("a typo below",
        "sluice: 1\n"
        "limits: {a: {kind: quota, rat: 5/day, rate: 5/day}}\n"
        "routes: [{limit: a}]\n"
        "server: {tls: {cert: x, certifcate: y}}\n",
        "{sluice: 1, limits: {a: {kind: quota, rate: 5/day}}, "
        "routes: [{limits: !}], server: {tls: {certificate: !}}}",
        "p.yaml:2:27: Unknown key \"rat\" in a limit\n"
        "  limits: {a: {kind: quota, rat: 5/day, rate: 5/day}}\n"
        "                            ^\n"
        "  write: rate\n"
        "p.yaml:3:11: Unknown key \"limit\" in a route\n"
        "  routes: [{limit: a}]\n"
        "            ^\n"
        "  write: limits\n"
        "p.yaml:4:16: Unknown key \"cert\" in tls. Valid keys: certificate, "
        "key or client_ca\n"
        "  server: {tls: {cert: x, certifcate: y}}\n"
        "                 ^\n"
        "p.yaml:4:25: Unknown key \"certifcate\" in tls\n"
        "  server: {tls: {cert: x, certifcate: y}}\n"
        "                          ^\n"
        "  write: certificate\n"),
    ROW("a key of another level",
        "sluice: 1\n"
        "kind: quota\n"
        "limits: {a: {kind: quota, rate: 1/day, limits: [b], status: 402}}\n"
        "routes: [{mode: off}]\n",
        "{sluice: 1, limits: {a: {kind: quota, rate: 1/day}}, routes: [{}]}",
        "p.yaml:2:1: Key \"kind\" is not valid in a policy. It belongs in a "
        "limit\n"
        "  kind: quota\n"
        "  ^\n"
        "p.yaml:3:40: Key \"limits\" is not valid in a limit. It belongs in a "
        "policy or a route\n"
        "  limits: {a: {kind: quota, rate: 1/day, limits: [b], status: 402}}\n"
        "                                         ^\n"
        "p.yaml:3:53: Key \"status\" is not valid in a limit. It belongs in "
        "deny, bounds of a header or an error\n"
        "  limits: {a: {kind: quota, rate: 1/day, limits: [b], status: 402}}\n"
        "                                                      ^\n"
        "p.yaml:4:11: Key \"mode\" is not valid in a route. It belongs in a "
        "policy or a limit\n"
        "  routes: [{mode: off}]\n"
        "            ^\n"),
    ROW("a key of no level",
        "sluice: 1\n"
        "limits: {a: {kind: quota, rate: 1/day, burst: 8}}\n"
        "foo: 1\n"
        "errors: {teapot: {}}\n",
        "{sluice: 1, limits: {a: {kind: quota, rate: 1/day}}, errors: {}}",
        "p.yaml:2:40: \"burst\" is not a key of a limit. Counts, periods and "
        "bursts are written in its rate\n"
        "  limits: {a: {kind: quota, rate: 1/day, burst: 8}}\n"
        "                                         ^\n"
        "  write: rate: 1/day\n"
        "p.yaml:3:1: Unknown key \"foo\" in a policy. Valid keys: sluice, "
        "env, enabled, mode, plans, identity, limits, routes, default, "
        "features, headers, reset, hold_max, errors, metrics, webhooks or "
        "server\n"
        "  foo: 1\n"
        "  ^\n"
        "p.yaml:4:10: Unknown key \"teapot\" in errors. Valid keys: "
        "rate_limited, plan_limit, forbidden, unauthorized, conflict, "
        "unavailable or bad_request\n"
        "  errors: {teapot: {}}\n"
        "           ^\n"),
    ROW("keys that must be there",
        "sluice: 1\n"
        "limits:\n"
        "  a:\n"
        "  b: {kind: quota}\n"
        "  c: {rate: 5/min}\n",
        "{sluice: 1, limits: {a: {}, b: {kind: quota}, c: {rate: 5/min}}}",
        "p.yaml:3:3: Missing key in a limit: \"kind\"\n"
        "    a:\n"
        "    ^\n"
        "  write: kind: token-bucket\n"
        "p.yaml:3:3: Missing key in a limit: \"rate\"\n"
        "    a:\n"
        "    ^\n"
        "  write: rate: 5/min burst 8\n"
        "p.yaml:4:3: Missing key in a limit: \"rate\"\n"
        "    b: {kind: quota}\n"
        "    ^\n"
        "  write: rate: 5/min burst 8\n"
        "p.yaml:5:3: Missing key in a limit: \"kind\"\n"
        "    c: {rate: 5/min}\n"
        "    ^\n"
        "  write: kind: token-bucket\n"),
    ROW("and of others",
        "sluice: 1\n"
        "limits: {a: {kind: quota, rate: 1/day}}\n"
        "identity: {unknown_subject: deny, subjects: {}}\n",
        "{sluice: 1, limits: {a: {kind: quota, rate: 1/day}}, identity: "
        "{unknown_subject: deny, subjects: {}}}",
        "p.yaml:3:35: Missing key in subjects: \"query\"\n"
        "  identity: {unknown_subject: deny, subjects: {}}\n"
        "                                    ^\n"
        "  write: query: \"SELECT plan, expires FROM accounts WHERE id = "
        "$1\"\n"),
    ROW("no key of names is unknown, but it may be a typo",
        "sluice: 1\n"
        "plans: {defualt: free, free: {}}\n"
        "identity: {trusted_proxy: {a: b}}\n",
        "{sluice: 1, plans: {defualt: !, free: {}}, identity: {trusted_proxy: "
        "!}}",
        "p.yaml:2:18: \"defualt\" must be a map, as in { aliases: "
        "[PRO_MONTHLY, PRO_YEARLY] }, not \"free\"\n"
        "  plans: {defualt: free, free: {}}\n"
        "                   ^\n"
        "  write: default\n"
        "p.yaml:3:27: \"trusted_proxy\" must be a source or a list of sources, "
        "as in header.x-device, not a map\n"
        "  identity: {trusted_proxy: {a: b}}\n"
        "                            ^\n"
        "  write: trusted_proxies\n"),
    ROW("a text for a policy", "hello\n", "!",
        "p.yaml:1:1: A policy must be a map of keys and values, not a "
        "text\n"
        "  hello\n"
        "  ^\n"
        "  write: sluice: 1\n"),
    ROW("a list for a policy", "- sluice: 1\n", "!",
        "p.yaml:1:1: A policy must be a map of keys and values, not a "
        "list\n"
        "  - sluice: 1\n"
        "  ^\n"
        "  write: sluice: 1\n"),
    ROW("what the reader refused is not refused again",
        "sluice: *x\n"
        "limits: {a: &y {kind: *x, rate: {free: *x}}}\n"
        "routes: [*x]\n"
        "mode: *x\n",
        "{sluice: !, limits: {a: {kind: !, rate: {free: !}}}, routes: [!], "
        "mode: !}",
        "p.yaml:1:9: A policy has no aliases. Repeat the value here\n"
        "  sluice: *x\n"
        "          ^\n"
        "p.yaml:2:13: A policy has no anchors. Repeat the value where it is "
        "needed\n"
        "  limits: {a: &y {kind: *x, rate: {free: *x}}}\n"
        "              ^\n"
        "p.yaml:2:23: A policy has no aliases. Repeat the value here\n"
        "  limits: {a: &y {kind: *x, rate: {free: *x}}}\n"
        "                        ^\n"
        "p.yaml:2:40: A policy has no aliases. Repeat the value here\n"
        "  limits: {a: &y {kind: *x, rate: {free: *x}}}\n"
        "                                         ^\n"
        "p.yaml:3:10: A policy has no aliases. Repeat the value here\n"
        "  routes: [*x]\n"
        "           ^\n"
        "p.yaml:4:7: A policy has no aliases. Repeat the value here\n"
        "  mode: *x\n"
        "        ^\n"),
    ROW("an alias for a policy", "*x\n", "!",
        "p.yaml:1:1: A policy has no aliases. Repeat the value here\n"
        "  *x\n"
        "  ^\n"),
};

int main(void)
{
    check_problems(good, SL_LEN(good), true);
    check_problems(keys, SL_LEN(keys), true);
    return CHECK_DONE();
}
