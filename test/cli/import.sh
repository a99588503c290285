#!/usr/bin/env bash
# import.sh SLUICE -- settings of Java libraries become policies that decide as
# they did. Each policy is proven by a flow.
sluice=$(realpath "$1")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

# import NAME: import NAME.yml to NAME.yaml and run NAME.flow.
import() {
    run "$sluice" import spring "$1.yml"
    check "$1: imported" is 0
    printf '%s\n' "$out" >"$1.yaml"
    told=$err
    run "$sluice" check "$1.yaml"
    check "$1: the policy is valid" is 0
    check "$1: without a warning" test -z "$err"
    run "$sluice" test "$1.flow"
    check "$1: it decides as the library did" is 0
}

# refused NAME SENTENCE: NAME.yml is not imported.
refused() {
    run "$sluice" import spring "$1.yml"
    check "$1: refused" is 1
    check "$1: with the reason" has "$err" "$2"
}

cat >bucket4j.yml <<'EOT'
spring:
  application: { name: shop }
bucket4j:
  enabled: true
  cache-to-use: redis-lettuce
  filters:
  - cache-name: buckets
    url: /api/v1/.*
    http-methods:
      - GET
      - POST
    http-status-code: SERVICE_UNAVAILABLE
    http-response-body: "{ \"error\": \"slow down\" }"
    strategy: all
    rate-limits:
    - cache-key: getRemoteAddr()
      bandwidths:
      - capacity: 5
        time: 10
        unit: seconds
        refill-speed: interval
      - capacity: 40
        refill-capacity: 30
        time: 1
        unit: minutes
    - cache-key: getHeader('X-API-KEY')
      skip-condition: "getRequestURI().contains('free')"
      num-tokens: 2
      bandwidths:
        - capacity: 6
          time: 1
          unit: hours
  - url: .*
    rate-limits:
      - cache-key: "@security.username()"
        bandwidths:
          - { capacity: 9, time: 1, unit: days }
EOT
refused bucket4j 'bucket4j.yml:37:13: only plain values are supported here'
sed -i 's/- { capacity: 9, time: 1, unit: days }/- capacity: 9\n            time: 1\n            unit: days/' bucket4j.yml
cat >bucket4j.flow <<'EOT'
flow "an interval, a burst, a header, and the filter for all paths"
policy bucket4j.yaml
at 0s
  GET /api/v1/x user=u1 header.x-api-key=k1 -> 200 remaining=4
  GET /api/v1/x user=u2 header.x-api-key=k2 x4 -> denied=1
  GET /api/v1/x user=u3 header.x-api-key=k3 x2 -> 503 by=bucket-1 retry=10s
at 9s
  GET /api/v1/x user=u3 header.x-api-key=k3 -> 503 by=bucket-1 retry=1s
at 10s
  GET /api/v1/x user=u3 header.x-api-key=k3 x2 -> allowed=2
  DELETE /api/v1/x user=d x9 -> allowed=9
  DELETE /api/v1/x user=d -> 429 by=bucket-4 limit=9
  GET /other user=o x9 -> allowed=9
  GET /other user=o -> 429 by=bucket-4
EOT
import bucket4j
check 'bucket4j: settings without an equivalent are told' has "$told" \
    'bucket4j.filters[0].http-response-body has no equivalent: write the body'
check 'bucket4j: with their line' has "$told" 'bucket4j.yml:5: bucket4j.cache-to-use'
check 'bucket4j: and conditions' has "$told" 'skip-condition has no equivalent'

cat >regex.yml <<'EOT'
bucket4j:
  filters:
    - url: /api/(a|b)
      rate-limits:
        - bandwidths:
            - capacity: 1
              time: 1
              unit: seconds
EOT
refused regex 'regex.yml:3: bucket4j.filters[0].url: the regular expression "/api/(a|b)"'
check 'regex: that is all' test "$(grep -c regex.yml: <<<"$err")" = 1
# As in the examples of the starter.
sed 's|/api/(a.b)|^(/hello).*|' regex.yml >brackets.yml
run "$sluice" import spring brackets.yml
check 'brackets: imported' is 0
check 'brackets: the route' has "$out" '- match: /hello/**'
check 'brackets: what is not the same' has "$err" \
    'filters[0].url takes longer names, too'
sed 's/(a|b)/[^\/]+\/x/; s/unit: seconds/unit: months/' regex.yml >months.yml
refused months '"months" has no fixed length; write seconds, minutes, hours or days'
sed 's/(a|b)/x/; /time/d' regex.yml >time.yml
refused time 'bucket4j.filters[0].rate-limits[0].bandwidths[0] has no time'

cat >gateway.yml <<'EOT'
spring:
  cloud:
    gateway:
      default-filters:
        - name: RequestRateLimiter
          args:
            redis-rate-limiter.replenishRate: 100
            redis-rate-limiter.burstCapacity: 20
            key-resolver: "#{@ipKeyResolver}"
      routes:
        - id: items
          uri: lb://items
          predicates:
            - Path=/items/{id}, /things/**
            - Method=GET
            - Header=X-Beta, \d+
          filters:
            - StripPrefix=1
            - name: RequestRateLimiter
              args:
                redis-rate-limiter.replenishRate: 1
                redis-rate-limiter.burstCapacity: 60
                redis-rate-limiter.requestedTokens: 30
        - id: free
          uri: lb://free
          predicates:
            - Path=/free/**
EOT
cat >gateway.flow <<'EOT'
flow "tokens that a request asks for, and the default filter"
policy gateway.yaml
at 0s
  GET /items/7 user=ann ip=192.0.2.7 x2 -> allowed=2
  GET /items/8 user=ann ip=192.0.2.7 -> 429 by=bucket-1 retry=30s
  GET /things/a/b user=ann ip=192.0.2.7 -> 429 by=bucket-1
  GET /items/7 ip=192.0.2.7 -> 401
  GET /free/x ip=192.0.2.9 x20 -> allowed=20
  GET /free/x ip=192.0.2.9 -> 429 by=bucket-2 limit=100 retry=10ms
  GET /free/x ip=192.0.2.10 -> 200
EOT
import gateway
check 'gateway: other predicates are told' has "$told" 'is not in the policy; the limit applies to all requests'
cat >short.yml <<'EOT'
spring.cloud.gateway.routes:
  - id: a
    filters:
      - RequestRateLimiter=1
EOT
refused short 'the short form of RequestRateLimiter is not read'
cat >bean.yml <<'EOT'
spring.cloud.gateway.routes:
  - id: a
    filters:
      - name: RequestRateLimiter
        args:
          rate-limiter: "#{@myLimiter}"
EOT
refused bean 'a limiter that is set in code has to be written by hand'

cat >resilience4j.yml <<'EOT'
resilience4j:
  ratelimiter:
    configs:
      slow:
        limit-for-period: 3
    instances:
      backendA:
        limitForPeriod: 10
        limitRefreshPeriod: 1500ms
        timeoutDuration: 2s
      backendB:
        baseConfig: slow
        limitRefreshPeriod: 1m
        limitForPerod: 7
EOT
cat >resilience4j.flow <<'EOT'
flow "an instance is a job with a window"
policy resilience4j.yaml
at 0s
  job backendA x20 -> allowed=10
  job backendA -> 429 by=backendA retry=1500ms
  job backendB x3 -> allowed=3
  job backendB -> 429 by=backendB retry=1m
at 1500ms
  job backendA x20 -> allowed=10
EOT
import resilience4j
check 'resilience4j: waiting is told' has "$told" 'a call waited for its turn'
check 'resilience4j: also if it is not set' has "$told" \
    'resilience4j.yml:12: backendB: timeout-duration is 5s if it is not set'
check 'resilience4j: so is a wrong name' has "$told" 'did you mean limit-for-period?'

cat >base.yml <<'EOT'
resilience4j.ratelimiter:
  limiters:
    old:
      limitForPeriod: 1
  instances:
    a:
      baseConfig: none
      limitRefreshPeriod: 700ns
---
resilience4j.ratelimiter.instances.a.limitForPeriod: 9
EOT
refused base 'base.yml:7: resilience4j.ratelimiter.instances.a.baseConfig: there is no configs.none'
check 'resilience4j: a period below 1 ms is told' has "$err" 'the period is no whole number of milliseconds'
check 'resilience4j: settings that are not read' has "$err" 'base.yml:4: resilience4j.ratelimiter.limiters.old.limitForPeriod is not read'
check 'a second document is told' has "$err" 'base.yml:9: another document begins here'

# Whose bucket it is, and what a policy does not have.
cat >keys.yml <<'EOT'
bucket4j:
  methods:
    - name: m
  default-metric-tags:
    - key: IP
  filters:
  - url: /a
    hide-http-response-headers: true
    http-response-headers:
      X-My: v
    metrics:
      enabled: true
    rate-limits:
      - cache-key: "@securityService.username()?: getRemoteAddr()"
        execute-predicates:
          - METHOD=GET
        skip-predicates:
          - name: HEADER
        bandwidths:
        - capacity: 2
          time: 1500
          unit: millis
          refill-speed: interval
  - url: /b
    rate-limits:
      - cache-key: "'all'"
        bandwidths:
        - capacity: 3
          time: 1
          unit: hours
  - url: /c
    rate-limits:
      - cache-key: getRemoteAddr() + getHeader('X-K')
        bandwidths:
        - capacity: 3
          time: 1
          unit: hours
  - url: /d
    rate-limits:
      - cache-key: getRemoteAddr() + getRemoteUser()
        bandwidths:
        - capacity: 3
          time: 1
          unit: hours
EOT
cat >keys.flow <<'EOT'
flow "a user, else the address; a constant; an interval below a second"
policy keys.yaml
at 0s
  GET /a user=ann ip=192.0.2.1 x3 -> allowed=2
  GET /a user=bob ip=192.0.2.1 x3 -> allowed=2
  GET /a ip=192.0.2.1 x3 -> allowed=2
  GET /a ip=192.0.2.2 -> 200
  GET /b user=ann x2 -> allowed=2
  GET /b user=bob x2 -> allowed=1
at 1400ms
  GET /a user=ann -> 429 retry=100ms
at 1500ms
  GET /a user=ann x3 -> allowed=2
EOT
import keys
for want in \
    'keys.yml:3: bucket4j.methods[0].name is not read' \
    'keys.yml:5: bucket4j.default-metric-tags[0].key is not read' \
    'keys.yml:8: bucket4j.filters[0].hide-http-response-headers has no' \
    'keys.yml:10: bucket4j.filters[0].http-response-headers.X-My has no' \
    'keys.yml:12: bucket4j.filters[0].metrics.enabled is not read' \
    'keys.yml:16: bucket4j.filters[0].rate-limits[0].execute-predicates[0] has' \
    'keys.yml:18: bucket4j.filters[0].rate-limits[0].skip-predicates[0].name' \
    'has several parts; bucket-3 counts by x_k alone' \
    'has several parts; bucket-4 counts by ip alone'; do
    check "keys: told: $want" has "$told" "$want"
done

# A session is no address: without a user, requests were told apart by it.
cat >session.yml <<'EOT'
bucket4j.filters:
- url: /api/.*
  rate-limits:
  - cache-key: "@users.username() ?: getSession().getId()"
    bandwidths:
    - capacity: 1
      time: 1
      unit: minutes
EOT
run "$sluice" import spring session.yml
check 'session: told' has "$err" 'has several parts; bucket-1 counts by user alone'

# Of the routes of a gateway, one is taken; default filters are always.
cat >one.yml <<'EOT'
spring.cloud.gateway:
  filter.request-rate-limiter:
    deny-empty-key: false
    empty-key-status-code: 400
  routes:
    - id: a
      predicates:
        - Path=/a/**
      filters:
        - name: RequestRateLimiter
          args:
            redis-rate-limiter.replenishRate: 1
            redis-rate-limiter.burstCapacity: 5
            redis-rate-limiter.includeHeaders: false
            statusCode: SERVICE_UNAVAILABLE
            emptyKeyStatus: 400
    - id: all
      filters:
        - name: RequestRateLimiter
          args:
            redis-rate-limiter.replenishRate: 1
            redis-rate-limiter.burstCapacity: 2
            key-resolver: "#{@ipKeyResolver}"
EOT
cat >one.flow <<'EOT'
flow "a status, no key, and one route"
policy one.yaml
at 0s
  GET /a/x user=ann ip=192.0.2.1 x5 -> allowed=5
  GET /a/x user=ann ip=192.0.2.1 -> 503 by=bucket-1
  GET /a/x ip=192.0.2.1 x9 -> allowed=9
  GET /b user=ann ip=192.0.2.1 x3 -> allowed=2
EOT
import one
for want in \
    'one.yml:4: spring.cloud.gateway.filter.request-rate-limiter.empty-key-status-code is not read' \
    'one.yml:14: spring.cloud.gateway.routes[0].filters[0].args.redis-rate-limiter.includeHeaders is not a known' \
    'one.yml:16: spring.cloud.gateway.routes[0].filters[0].args.emptyKeyStatus has no equivalent'; do
    check "one: told: $want" has "$told" "$want"
done

# The gateway takes the first route, a policy the one that matches most.
cat >order.yml <<'EOT'
spring.cloud.gateway.server.webflux:
  enabled: true
  filter.request-rate-limiter.enabled: true
  routes:
    - id: late
      order: 7
      predicates:
        - Path=/**
      filters:
        - name: RequestRateLimiter
          args:
            redis-rate-limiter.replenishRate: 1
            redis-rate-limiter.burstCapacity: 2
    - id: open
      predicates:
        - Path=/a/open/**,/b
    - id: hosts
      predicates:
        - Host=a.example.org
    - id: a
      predicates:
        - Path=/a/**
      filters:
        - name: RequestRateLimiter
          args:
            redis-rate-limiter.replenishRate: 1
            redis-rate-limiter.burstCapacity: 4
        - name: RequestRateLimiter
          args:
            redis-rate-limiter.replenishRate: 1
            redis-rate-limiter.burstCapacity: 5
            redis-rate-limiter.requestedTokens: 2
    - id: never
      order: 1
      predicates:
        - Path=/a/x
      filters:
        - name: RequestRateLimiter
          args:
            redis-rate-limiter.replenishRate: 1
EOT
cat >order.flow <<'EOT'
flow "the first route"
policy order.yaml
at 0s
  GET /a/x user=ann x3 -> allowed=2
  GET /a/open/x user=ann x9 -> allowed=9
  GET /b user=ann x9 -> allowed=9
  GET /c user=ann x9 -> allowed=2
EOT
import order
check 'order: a route that is never reached is told' has "$told" \
    'routes[4].predicates[0]: requests of /a/x are taken by /a/**, a route before it; it is left out'
check 'order: a route without a limiter, by more than its path, is told' has "$told" \
    'order.yml:19: spring.cloud.gateway.server.webflux.routes[2] has no limiter, and predicates that are not'
# gateway_of N: the last of N routes has a limiter.
gateway_of() {
    printf 'spring.cloud.gateway.routes[%d].predicates[0]=Path=/r\n' $(($1 - 1))
    printf 'spring.cloud.gateway.routes[%d].filters[0].%s\n' $(($1 - 1)) \
        name=RequestRateLimiter $(($1 - 1)) args.redis-rate-limiter.replenishRate=1
    for ((i = 0; i < $1 - 1; i++)); do
        printf 'spring.cloud.gateway.routes[%d].predicates[0]=Path=/r%d\n' $i $i
    done
}
gateway_of 256 >many.properties
run "$sluice" import spring many.properties
check 'many: the last of 256 routes is read' has "$out" 'match: /r'$'\n''    limits: [bucket-1]'
gateway_of 257 >many.properties
run "$sluice" import spring many.properties
check 'many: more are refused' has "$err" 'has more than 256 routes'
for name in enabled filter.request-rate-limiter.enabled; do
    sed "s/^  $name: true/  $name: false/" order.yml >off.yml
    run "$sluice" import spring off.yml
    check "order: $name: false is in the policy" has "$out" 'enabled: false'
done

printf 'server.port: 1\n' >none.yml
run "$sluice" import spring none.yml
check 'no limits: says which settings are read' has "$err" 'bucket4j or resilience4j.ratelimiter'
cat >bucket4j.properties <<'EOT'
bucket4j.filters[0].url=^/x$
bucket4j.filters[0].rate-limits[0].bandwidths[0].capacity=2
bucket4j.filters[0].rate-limits[0].bandwidths[0].time=500
bucket4j.filters[0].rate-limits[0].bandwidths[0].unit=millis
EOT
run "$sluice" import spring bucket4j.properties
check 'properties: the same, without YAML' has "$out" 'rate: 2/500ms'
check 'properties: one bucket for all' has "$out" 'per: []'
echo 'bucket4j.enabled=false' >>bucket4j.properties
run "$sluice" import spring bucket4j.properties
check 'properties: bucket4j.enabled=false is in the policy' has "$out" 'enabled: false'

# A number without a unit is in milliseconds, as in Spring.
cat >bare.yml <<'EOT'
resilience4j.ratelimiter:
  instances:
    a:
      limitForPeriod: 7
      limitRefreshPeriod: 60000
      timeoutDuration: soon
EOT
cat >bare.flow <<'EOT'
flow "seven a minute"
policy bare.yaml
at 0s
  job a x8 -> allowed=7
at 60s
  job a x8 -> allowed=7
EOT
import bare
check 'bare: a wait that is no duration is told' has "$told" \
    'bare.yml:6: resilience4j.ratelimiter.instances.a.timeoutDuration: a call waited'

cat >quotes.yml <<'EOT'
bucket4j:
  filters:
  - url: '/api/.*' # all
    rate-limits:
    - cache-key: 'getHeader(''X-API'')'
      bandwidths:
      - capacity: "2"
        time: 1
        unit: minutes
    - cache-key: "getHeader(\"X-API\")"
      bandwidths:
      - capacity: 5
        time: 1
        unit: hours
EOT
cat >quotes.flow <<'EOT'
flow "quotes in quotes"
policy quotes.yaml
at 0s
  GET /api/x header.x-api=k x3 -> allowed=2
  GET /api/x header.x-api=m x3 -> allowed=2
EOT
import quotes

# bandwidth NAME LINE...: a file with one bandwidth.
bandwidth() {
    printf 'bucket4j:\n  filters:\n  - url: /a/.*\n    rate-limits:\n    - bandwidths:\n' >"$1.yml"
    printf '      - capacity: 10\n' >>"$1.yml"
    printf '        %s\n' "${@:2}" >>"$1.yml"
}
bandwidth aligned 'time: 1' 'unit: days' 'refill-speed: intervally_aligned'
refused aligned 'aligned.yml:9: bucket4j.filters[0].rate-limits[0].bandwidths[0].refill-speed must be greedy or interval'
bandwidth nanos 'time: 1' 'unit: nanos'
refused nanos 'more than 100000000 in a second is the same as no limit'
bandwidth junk 'time: "1" 5' 'unit: days'
refused junk 'junk.yml:7:18: there is more after the closing quote'
bandwidth escape 'time: "1\x30"' 'unit: days'
refused escape 'this escape is not read'
finish
