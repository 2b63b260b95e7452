#!/usr/bin/env bash
# Commands as handlers: what they are given, what their ends mean, and how they are ended.
# Proves: OPS-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

# work ARGUMENTS…: handles what is due, and ends.
work() { expect 0 work "$url" --until-empty "$@"; }
state_of() {
    expect 0 message "$url" "$1" --json
    json_value state
}
# ends_as STATE COMMAND…: one message of its own, handled by this command, is now in this state.
ends_as() {
    enqueue --topic t --payload x
    work --backoff 1h --on t -- "${@:2}"
    local found
    found=$(state_of "$id")
    [[ $found == "$1" ]] || fail "after '${*:2}' the message should be $1, not $found"
    run message "$url" "$id"
}
# until_true COMMAND…: waits for a condition, not for a time.
until_true() {
    local tries=0
    until "$@"; do
        ((++tries < 400)) || fail "it never became true: $*"
        sleep 0.05
    done
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }

# Every end of a command has its meaning, and its last words become the error.
ends_as done true
ends_as 'done' sh -c 'cat >/dev/null; echo trouble >&2; exit 0'
out_lacks trouble
ends_as retrying sh -c 'exit 75'
out_matches 'last error +exited with 75'
ends_as retrying sh -c 'echo "the disk is full" >&2; exit 3'
out_matches 'last error +exited with 3: the disk is full'
out_matches 'attempts +1'
ends_as retrying sh -c 'kill -9 $$'
out_matches 'last error +killed by signal 9'
ends_as retrying sh -c 'kill -SEGV $$'
out_matches 'last error +killed by signal 11'
ends_as dead sh -c 'echo "no such customer" >&2; exit 65'
out_matches 'last error +exited with 65: no such customer'
ends_as retrying sh -c 'head -c 100000 /dev/zero | tr "\0" a >&2; echo the-end >&2; exit 1'
out_has 'the-end'
ends_as dead sh -c 'printf "%03000d" 0 >&2; exit 65'
expect 0 message "$url" "$id" --json
text=$(json_value last_error)
((${#text} <= 2000 && ${#text} > 1900)) || fail "an error has at most 2,000 bytes, not ${#text}"
printf '#!/bin/sh\nexit 0\n' >"$scratch/own"
chmod +x "$scratch/own"
ends_as 'done' "$scratch/own"
printf 'neither script nor program' >"$scratch/own"
ends_as retrying "$scratch/own"
out_matches 'last error +cannot start'

# After its attempts a message is dead, and whoever watches is told.
enqueue --topic t --payload x
expect 0 work "$url" --attempts 2 --backoff 1ms --limit 2 --on t -- sh -c 'exit 9'
[[ $(state_of "$id") == dead ]] || fail "two attempts are all it has"
[[ $(grep -c "$id" <<<"$err") == 3 ]] || fail "two failures and a death are a line each"
[[ $(grep -c dead <<<"$err") == 2 ]] || fail "the death is told once, and counted at the end"
expect 0 work "$url" --until-empty --json --on t -- true
out_matches '^\{"ended":"empty","done":0,"retrying":0,"dead":0,"released":0,"parked":0,"lost":0,"left_running":0\}$'

# Rules: how many attempts, how long between them, and what a dead message does to its key.
wait_of() { # seconds until the message is due, whole
    expect 0 message "$url" "$id" --json
    echo $(($(date -u -d "$(json_value due_at)" +%s) - $(date -u -d "$(json_value created_at)" +%s)))
}
# fails OPTIONS…: the next attempt fails.
fails() { expect 0 work "$url" --limit 1 "$@" --jitter 0 --on rules -- false; }
enqueue --topic rules --payload x
fails --retry persistent --attempts 1 --then-every 30d
(($(wait_of) >= 30 * 86400)) || fail "the first failure is one of all alike"
expect 0 cancel "$url" "$id"
enqueue --topic rules --payload x
fails --backoff 3h --backoff-max 4h
(($(wait_of) >= 3 * 3600 && $(wait_of) < 4 * 3600)) || fail "it should wait for three hours"
expect 0 cancel "$url" "$id"
for rule in blocks skips; do
    enqueue --topic rules --payload x --key "$rule"
    fails --attempts 1 --on-dead "$rule"
done
expect 0 dead keys "$url"
out_has blocks
out_lacks skips
expect 2 work "$url" --retry persistent --backoff-max 1h --on t -- true
err_has '--backoff-max: belongs to the rule exponential'
expect 2 work "$url" --retry exponential --then-every 1h --on t -- true
err_has '--then-every: belongs to the rule persistent'
expect 2 work "$url" --retry never --on t -- true
err_has "'never' is no rule: there are exponential, which gives up, and persistent"
expect 2 work "$url" --jitter 2 --on t -- true
err_has 'a number from 0 to 1'
expect 2 work "$url" --on-dead stops --on t -- true
err_has "'stops' is unknown; a dead message blocks or skips its key"
expect 2 relay "$url" --on t --to nats://localhost --retry persistent --backoff-max 1h
err_has '--backoff-max: belongs to the rule exponential'

# What a command is told.
unset POSTHORN_HEADER_OLD || true
export POSTHORN_HEADER_OLD=stale
enqueue --topic mail.welcome --key anna --correlation corr --header lang=de \
    --header x-trace.id=7 --payload 'Grüße'
work --on 'mail.*' -- sh -c 'cat; env | grep ^POSTHORN_ | sort'
for line in 'Grüße' "POSTHORN_ID=$id" POSTHORN_TOPIC=mail.welcome POSTHORN_ATTEMPT=1 \
    POSTHORN_KEY=anna POSTHORN_CORRELATION_ID=corr POSTHORN_HEADER_LANG=de \
    POSTHORN_HEADER_X_TRACE_ID=7 'POSTHORN_HEADERS={"lang":"de","x-trace.id":"7"}'; do
    out_has "$line"
done
out_lacks stale
unset POSTHORN_HEADER_OLD

# No header passes for one of Posthorn's own, and none for another.
enqueue --topic forged --payload x --header posthorn_source=bank --header a-b=1 --header a_b=2 --header c=3
expect 0 work "$url" --until-empty --on forged -- env
out_lacks POSTHORN_HEADER_POSTHORN_SOURCE
out_lacks POSTHORN_HEADER_A_B=
out_has POSTHORN_HEADER_C=3
out_has '"posthorn_source":"bank"'
# No shell is involved, nothing of ours is open in it, and its signals are as usual.
enqueue --topic t --payload x
work --on t -- printf '%s|' '$HOME' 'a b' '*'
out_is '$HOME|a b|*|'
enqueue --topic t --payload x
work --on t -- sh -c 'ls /proc/self/fd | wc -l; exec grep -E "^Sig(Blk|Ign)" /proc/self/status'
out_matches $'^4\n' # ls itself has one more: the folder
out_matches 'SigBlk:[^0-9]*0+'$'\n'
out_matches 'SigIgn:[^0-9]*0+[0-9a-f]*$'

# Large payloads go in and out at once; one that is not read does no harm.
head -c 1000000 /dev/urandom >"$scratch/large"
enqueue --topic t - <"$scratch/large"
work --on t -- sh -c 'cat; cat /dev/null >&2'
cmp -s "$scratch/large" "$scratch/out" || fail "the payload should come back as it was"
enqueue --topic t - <"$scratch/large"
work --on t -- sh -c 'head -c 3000000 /dev/zero >&2; cat >/dev/null'
[[ $(state_of "$id") == done ]] || fail "a command may write before it reads"
enqueue --topic t - <"$scratch/large"
work --on t -- true
[[ $(state_of "$id") == done ]] || fail "a command need not read its input"
enqueue --topic t --payload x
work --on t -- sh -c 'sleep 30 & echo $! >'"$scratch/left"
[[ $(state_of "$id") == done ]] || fail "a command may leave a process behind"
kill "$(<"$scratch/left")"

# Several commands, each with its topics.
enqueue --topic a --payload x
enqueue --topic b --payload x
enqueue --topic c.1 --payload x
work --on a --on b -- sh -c 'echo "first $POSTHORN_TOPIC"' --on 'c.*' -- echo second
out_has 'first a'
out_has 'first b'
out_has second

# A message nobody handles is parked, until somebody does.
enqueue --topic orphan --payload x
work --on t -- true
[[ $(state_of "$id") == parked ]] || fail "a message without a handler is parked"
expect 0 message "$url" "$id"
out_has 'parked, no worker has a handler for its topic'
expect 0 messages "$url" --state parked
out_has "$id"
work --on orphan -- true
[[ $(state_of "$id") == done ]] || fail "the next worker with a handler takes it"

# --limit and concurrency.
expect 0 enqueue "$url" --topic many --payload x --count 20
expect 0 work "$url" --limit 5 --json --on many -- true
[[ $(json_value done) == 5 && $(json_value ended) == limit ]] || fail "five were asked for"
work --concurrency 4 --json --on many -- true
[[ $(json_value done) == 15 ]] || fail "fifteen are left"
# With --json nothing but the document is on standard output.
enqueue --topic t --payload x
work --json --on t -- echo hello
out_lacks hello
err_has hello
# Two that speak at the same time do not break each other's lines.
enqueue --topic left --payload x
enqueue --topic right --payload x
meet() {
    printf %s "printf '$1 begins, ' >&2; touch $scratch/$1; until [ -e $scratch/$2 ]; do sleep 0.01; done; "
    printf %s "printf '$1 ends\\n' >&2; printf 'and the last word of $1' >&2"
}
work --concurrency 2 --on left -- sh -c "$(meet left right)" --on right -- sh -c "$(meet right left)"
err_has 'left begins, left ends'
err_has 'right begins, right ends'
err_has 'and the last word of left'
err_has 'and the last word of right'

# A command that takes too long is ended with all it has started, even if it will not listen.
# (The last words of a killed one are kept.)
enqueue --topic t --payload x
work --timeout 2s --backoff 1h --on t -- \
    sh -c "echo busy >&2; sleep 300 & echo \$! >$scratch/sleeper; wait"
expect 0 message "$url" "$id"
out_matches 'last error +timed out after 2000 ms, killed by signal 15: busy'
out_matches $'state +retrying\n'
until_true is_gone "$(<"$scratch/sleeper")"
enqueue --topic t --payload x
work --timeout 2s --backoff 1h --on t -- \
    bash -c "trap '' TERM; sleep 300 & echo \$! >$scratch/sleeper; wait; wait; sleep 300"
expect 0 message "$url" "$id"
out_matches 'last error +timed out after 2000 ms, killed by signal 9'
until_true is_gone "$(<"$scratch/sleeper")"
enqueue --topic t --payload x
work --timeout 2s --on t -- bash -c 'trap "exit 0" TERM; while :; do sleep 0.02; done'
[[ $(state_of "$id") == done ]] || fail "what a command says in the end counts"

# begin_work ARGUMENTS…: works in the background until it is signalled; its id is in $pid.
begin_work() {
    rm -f "$scratch/started"
    "$posthorn" work "$url" --json "$@" >"$scratch/out" 2>"$scratch/err" &
    pid=$!
    until_true test -e "$scratch/started"
}
# ended STATUS: the worker in the background has ended so.
ended() {
    status=0
    wait "$pid" || status=$?
    out=$(<"$scratch/out") err=$(<"$scratch/err") command='work in the background'
    ((status == $1)) || fail "the exit code should be $1"
}

# The first signal drains: what runs may end, and nothing new begins.
for signal in TERM INT; do
    enqueue --topic slow --payload x
    first=$id
    enqueue --topic slow --payload x
    begin_work --on slow -- sh -c "touch $scratch/started; sleep 0.5"
    kill -"$signal" "$pid"
    ended 0
    out_has '"ended":"stopped","done":1'
    [[ $(state_of "$first") == done && $(state_of "$id") == ready ]] ||
        fail "the first should be done, the second untouched"
    work --on slow -- true
done

# The second signal ends it now; the message is put back as if nothing had been.
enqueue --topic slow --payload x
begin_work --on slow -- bash -c "trap '' TERM; echo \$\$ >$scratch/child; touch $scratch/started; sleep 300; sleep 300"
kill -TERM "$pid"
until_true grep -qE '^ShdPnd:[^0-9]*0+$' "/proc/$pid/status" # it has arrived, or both become one
kill -TERM "$pid"
ended 1
out_has '"ended":"stopped_now"'
out_has '"released":1'
until_true is_gone "$(<"$scratch/child")"
expect 0 message "$url" "$id"
out_matches $'state +ready\n'
out_matches 'attempts +0'
work --on slow -- true

# When the grace is over, the same happens without a second signal.
enqueue --topic slow --payload x
begin_work --grace 400ms --on slow -- sh -c "touch $scratch/started; exec sleep 300"
kill -TERM "$pid"
ended 0
out_has '"released":1'
[[ $(state_of "$id") == ready ]] || fail "the message should be ready again"

# Wrong usage is told before anything is claimed.
expect 2 work "$url" --on t
err_has 'the command is missing'
expect 2 work "$url" --on t --
err_has 'the command is missing'
expect 2 work "$url" -- true
err_has '--on is required'
expect 2 work "$url" --on t -- no-such-program
err_has "cannot run 'no-such-program': there is no such program in PATH"
expect 2 work "$url" --on t -- "$scratch/no-such-file"
err_has 'there is no such file'
expect 2 work "$url" --on t -- "$scratch"
err_has 'it is not a program'
expect 2 work "$url" --on t -- "$scratch/large"
err_has 'it is not a program'
expect 2 work "$url" --on 'a*b' -- true
expect 2 work "$url" --on t -- true --on t -- false
err_has 'has a handler already'
expect 2 work "$url" --concurrency 0 --on t -- true
expect 2 work "$url" --lease 1ms --on t -- true
expect 2 work "$url" --no-such-option --on t -- echo --json
[[ $err != '{'* ]] || fail "the command's words are not ours"
expect 1 work "sqlite:$scratch/none.db" --on t -- true
