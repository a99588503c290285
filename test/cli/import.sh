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
  job backendA x20 -> allowed=20
  job backendA -> 429 by=backendA retry=3s
  job backendB x3 -> allowed=3
  job backendB -> 429 by=backendB retry=1m
at 3s
  job backendA -> 200
EOT
import resilience4j
check 'resilience4j: waiting is told' has "$told" 'a call waited for its turn'
check 'resilience4j: so is a wrong name' has "$told" 'did you mean limit-for-period?'

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
check 'properties: the same, without YAML' has "$out" 'rate: 4/s burst 2'
check 'properties: one bucket for all' has "$out" 'per: []'
finish
