#!/usr/bin/env bash
# completion.sh SLUICE -- what shells complete. Shells that are not installed
# are passed over.
sluice=$(realpath "$1")
# shellcheck source=test/support/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
touch policy.yaml 'a file.flow'

# complete WORD...: what bash offers for the last word.
complete_words() {
    # shellcheck disable=SC2016 # for the other shell, and called by run
    bash -c 'source <("$0" completion bash)
        COMP_WORDS=(sluice "$@") COMP_CWORD=$#
        _sluice
        printf "%s\n" "${COMPREPLY[@]}"' "$sluice" "$@"
}

run bash -n <("$sluice" completion bash)
check 'bash reads its script' is 0
run complete_words ''
check 'all commands' has "$out" $'init\ncheck\nexplain\ntest\nbench\nimport\n'
run complete_words ch
check 'a command by its beginning' test "$out" = check
run complete_words check --sc
check 'a flag' test "$out" = --schema
run complete_words check -o j
check 'an output' test "$out" = json
run complete_words check pol
check 'a file' test "$out" = policy.yaml
run complete_words test a
check 'a file with a blank in its name' test "$out" = 'a file.flow'
run complete_words completion z
check 'a shell' test "$out" = zsh
run complete_words import sp
check 'a source' test "$out" = spring

run complete_words webhook endp
check 'a group of actions' test "$out" = endpoint
run complete_words webhook endpoint ro
check 'an action of the group' test "$out" = rotate
run complete_words webhook message s
check 'and of another' test "$out" = $'send\nshow'

for shell in zsh fish; do
    command -v "$shell" >/dev/null || continue
    "$sluice" completion "$shell" >script
    run "$shell" -n script
    check "$shell reads its script" is 0
done
finish
