# shellcheck shell=bash
# postgres.sh -- daemons that share a PostgreSQL; on top of test/daemon.
#
#   with-postgres.sh NAME.sh SLUICED SLUICED-TEST SLUICE
#
#   both              two daemons, $a_http and $b_http, $a_admin and $b_admin,
#                     $a_pid and $b_pid
#   one               one, as $http, $admin and $pid
#   sql TEXT          what the database says
#   used              units of minutes that are recorded of acme

# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
a_http='' a_admin='' a_pid='' a_log='' b_http='' b_admin='' b_pid=''

cat >p.yaml <<'EOT'
sluice: 1
plans: { default: free, free: {}, pro: {} }
identity:
  user: [header.x-user-id]
  plan: [subject.plan]
limits:
  minutes: { kind: quota, per: org, rate: 1000000/month }
  api: { kind: token-bucket, per: user, rate: { free: 5/min, pro: 50/min } }
features: { assistant: { enabled: true } }
routes:
  - { match: /ai, feature: assistant, limits: [api] }
  - { job: transcribe, limits: [minutes] }
default: [api]
EOT

one() {
    start -c p.yaml --threads 1 --store memory: \
        --usage "$SLUICE_TEST_POSTGRES" --deadline "${deadline:-5s}"
}

both() {
    one
    a_http=$http a_admin=$admin a_pid=$pid a_log=$log
    one
    b_http=$http b_admin=$admin b_pid=$pid
    : "$a_http$a_admin$a_pid$a_log$b_http$b_admin$b_pid"
}

sql() {
    psql -X -q -t -A "$SLUICE_TEST_POSTGRES" -c "$1"
}

used() {
    sql "SELECT coalesce(sum(used), 0) FROM sluice.usage_counters
         WHERE id = 'acme' AND limit_name = 'minutes'"
}

days() {
    sql "SELECT coalesce(sum(used), 0) FROM sluice.usage_days
         WHERE id = 'acme' AND limit_name = 'minutes'"
}

send() {
    python3 "$here/reports.py" "$@"
}
