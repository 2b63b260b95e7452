#!/usr/bin/env bash
# Every reason for which a message may not have run has a sentence, a word, and a way out; and
# operators pause and resume what workers do.
# Proves: OPS-01, OPS-06
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

# because REASON TEXT [ID]: says so of the message, in words and as JSON.
because() {
    expect 0 why "$url" "${3:-$id}" --json
    [[ $(json_value reason) == "$1" ]] || fail "the reason should be $1"
    expect 0 why "$url" "${3:-$id}"
    out_has "$2"
}
work() { expect 0 work "$url" --until-empty "$@"; }
all_done() { work --on '*' -- true; }

enqueue --topic t --payload x
because no_worker_yet 'no worker has taken it yet'
all_done
because 'done' 'it was handled '

enqueue --topic t --payload x --delay 90m
because delayed 'it is not due yet: in 1h'
expect 0 cancel "$url" "$id"
because cancelled 'it was cancelled'

enqueue --topic t --payload x
work --backoff 1h --on t -- sh -c 'echo "the bank is closed" >&2; exit 1'
because retrying 'it has failed 1 time and will be tried again in '
out_has 'the last error: exited with 1: the bank is closed'

enqueue --topic t --payload x --expires 1ms
because expired 'nobody had started it'
all_done
because expired 'nobody started it in time: it expired '
out_has 'expired: '

# Ordering keys: held, and blocked.
enqueue --topic t --payload x --key "anna's" --delay 1h
first=$id
enqueue --topic t --payload x --key "anna's"
because key_held "it waits for message $first of the same ordering key 'anna's', which is delayed"
expect 0 why "$url" "$id" --json
[[ $(json_value held_by) == "$first" ]] || fail "the first message holds the key"
enqueue --topic t --payload x --key berta
blocker=$id
enqueue --topic t --payload x --key berta
work --on t -- sh -c '[ "$POSTHORN_KEY" != berta ] || { echo broken >&2; exit 65; }'
because key_blocked "its ordering key 'berta' is blocked by message $blocker, which is dead; the last error: exited with 65: broken"
out_has "posthorn dead retry-key $url berta"
because dead 'after 1 attempt; the last error: exited with 65: broken' "$blocker"
expect 0 dead skip-key "$url" berta
because no_worker_yet 'no worker' # and now it may run
all_done

# Claimed, by somebody who lives or does not.
enqueue --topic t --payload x
"$worker" "$url" hold >/dev/null
because claimed 'worker cli-worker has claimed it (attempt 1); its lease ends in '
enqueue --topic t --payload x
"$worker" "$url" claim >/dev/null
because started 'worker cli-worker has started it (attempt 1, '
out_has '); its lease ends in '
enqueue --topic t --payload x
rm -f "$scratch/started"
"$posthorn" work "$url" --lease 200ms --name sleepy --on t -- \
    sh -c "echo \$\$ >$scratch/child; touch $scratch/started; exec sleep 60" 2>/dev/null &
pid=$!
until [[ -e $scratch/started ]]; do sleep 0.05; done
because started 'worker sleepy has started it'
kill -9 "$pid"
wait "$pid" || true
until expect 0 why "$url" "$id" --json && [[ $(json_value reason) == lease_over ]]; do sleep 0.05; done
because lease_over 'started it, but its lease ran out '
kill "$(<"$scratch/child")"

# Parked, and paused.
enqueue --topic orphan --payload x
work --on t -- true
because parked_no_handler "has no handler for the topic 'orphan'"
all_done
because 'done' 'it was handled'

enqueue --topic crowded --payload x
"$worker" "$url" park >/dev/null
because at_limit "as many of the topic 'crowded'"
all_done

expect 0 pause "$url" --topic 'mail.*'
out_is "'mail.*' is paused"
expect 0 pause "$url" --topic 'mail.*' --json
out_is '{"topic":"mail.*","paused":true,"changed":false}'
expect 0 stats "$url"
out_has 'paused: mail.*, '
expect 0 stats "$url" --json
out_matches '"pauses":\[\{"topic":"mail\.\*","since":"[^"]+"\}\]'
enqueue --topic mail.welcome --payload x
because paused "the topic 'mail.*' was paused "
out_has "posthorn resume $url --topic 'mail.*'"
all_done
because parked_paused "it is parked: the topic 'mail.*' was paused"
expect 0 message "$url" "$id" --json
out_has '"state":"parked"'
out_has '"parked_for":"paused"'
expect 0 resume "$url" --topic 'mail.*'
out_is "'mail.*' is resumed"
expect 0 resume "$url" --topic 'mail.*'
out_is "'mail.*' was not paused"
because parked_paused 'that is over'
all_done
because 'done' 'it was handled'

expect 0 pause "$url"
out_is 'everything is paused'
enqueue --topic t --payload x
because paused 'the whole store was paused'
all_done
because paused 'the whole store was paused'
expect 0 resume "$url" --json
out_is '{"topic":null,"paused":false,"changed":true}'
all_done
because 'done' 'it was handled'
expect 2 pause "$url" --topic ''

expect 1 why "$url" "$unknown_id"
err_has "there is no message $unknown_id"
expect 1 why "$url" "$unknown_id" --json
err_has '{"error":{"code":"not_found",'
expect 2 why "$url" not-an-id
