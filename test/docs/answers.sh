#!/usr/bin/env bash
# answers.sh -- the table of denials in docs/reference/answers.md has a flow for
# each row. The flows themselves are the test flow-p03-retry.
#
#   answers.sh ROOT
set -euo pipefail

cd "$1"
rows=$(awk -F' *[|] *' '/^\| denial \|/ { on = 1; getline; next }
                        on && !/^\|/ { exit }
                        on { print $2 }' docs/reference/answers.md)
flows=$(sed -n 's/^flow "\(.*\)"$/\1/p' test/flow/p03-retry.flow)
echo 1..1
if [[ $rows && $rows = "$flows" ]]; then
    echo 'ok 1 - each row has its flow'
else
    diff <(echo "$rows") <(echo "$flows") | sed 's/^/# /'
    echo 'not ok 1 - each row has its flow'
    exit 1
fi
