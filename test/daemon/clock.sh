#!/usr/bin/env bash
# clock.sh -- a month in a moment, in builds for tests.

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"

policy p.yaml 2/day
sed -i 's/fixed-window/quota/; s/day/month/' p.yaml
start_virtual -c p.yaml
auth ann
auth ann
auth ann
check 'a quota is used' answers 429
check 'until the end of January 1970' has "$fields" 'Retry-After: 2678400'
tell /v1/clock -d '{"now":"1970-01-31T23:59:59.999Z"}'
check 'the clock is set' answers 200
auth ann
check 'a millisecond before' answers 429
check 'a second, rounded up' has "$fields" 'Retry-After: 1'
tell /v1/clock -d '{"now":"1970-02-01T00:00:00Z"}'
auth ann
check 'and at midnight' answers 200
tell /v1/clock -d '{"now":"yesterday"}'
check 'nonsense is refused' answers 400
stop
check 'it ends as asked, whatever its clock says' is 0

run "$sluiced_test" --clock=virtual --threads 2
check 'a virtual clock needs --threads 1' is 2

start -c p.yaml --store memory:
tell /v1/clock -d '{"now":"1970-02-01T00:00:00Z"}'
check 'a real clock is not set by anybody' answers 404
stop

finish
