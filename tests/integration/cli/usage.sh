#!/usr/bin/env bash
# The program explains itself, and says with its exit code whose fault it was.
# Proves: OPS-01, F21
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"

verbs=(init migrate stats stores clean doctor enqueue messages message cancel why tail trace work pause resume
    'inbox list' 'inbox show' 'inbox revive' 'keys list' 'keys show' 'keys release'
    'dead list' 'dead show' 'dead redrive' 'dead purge' 'dead keys' 'dead retry-key'
    'dead skip-key')

expect 0 --version
out_matches '^posthorn [0-9]+\.[0-9]+\.[0-9]+$'
expect 0 --help
for verb in "${verbs[@]}" demo; do out_has "  $verb "; done

# Every verb's help ends with an example of itself and the exit codes.
for verb in "${verbs[@]}"; do
    read -ra words <<<"$verb"
    expect 0 "${words[@]}" --help
    out_has '--json'
    out_matches "Examples:.*  posthorn $verb sqlite:.*Exit codes:.*  2  [^"$'\n'"]*$"
    expect 2 "${words[@]}"
    err_has "URL is required"
    expect 2 "${words[@]}" "$url" --no-such-option --json
    err_has '{"error":{"code":"invalid_argument","message":'
    out_is ''
done

expect 2
err_has 'a verb is missing'
expect 2 dead
err_has 'a verb is missing'
expect 2 enque
err_has "there is no verb 'enque'; did you mean 'enqueue'?"
expect 2 dead lst
err_has "did you mean 'list'?"
expect 2 xyzzy
[[ $err != *'did you mean'* ]] || fail "nothing is like xyzzy"
expect 2 enqueue "$url" --payload x
err_has '--topic is required'

# A wrong URL is the caller's fault, a store that is not there is a failure.
expect 2 stats store.db
err_has 'is not a store URL'
expect 2 stats oracle:store.db
err_has "no store has the scheme 'oracle'"
expect 2 stats "$url?colour=red"
err_has "unknown parameter 'colour'"
expect 2 stats "$url?busy_timeout=soon"
err_has "'soon' is not a length of time"
expect 1 stats "$url"
err_has 'posthorn init'
expect 1 stats "$url" --json
err_has '{"error":{"code":"not_found","message":'
[[ ! -e $scratch/store.db ]] || fail "looking at a store that is not there must not create it"

# A reader who stops early is no accident; a disk that loses the result is one.
expect 0 init "$url"
expect 0 enqueue "$url" --topic t --payload x --count 5000
for form in '' --json; do
    set +o pipefail
    { "$posthorn" messages "$url" --limit 5000 $form 2>"$scratch/err" || echo "code $?" >>"$scratch/err"; } |
        head -c 100 >/dev/null
    set -o pipefail
    # The note about further pages is the only thing it may say.
    err=$(grep -v '^there are more' "$scratch/err" || true)
    err_is_empty
done
status=0
"$posthorn" messages "$url" >/dev/full 2>"$scratch/err" || status=$?
err=$(<"$scratch/err")
((status == 1)) || fail "a result that cannot be written is a failure"
err_has 'cannot be written'

# Colours are for terminals.
expect 0 stats "$url"
out_lacks $'\e'
