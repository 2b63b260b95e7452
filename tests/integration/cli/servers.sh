#!/usr/bin/env bash
# Commands as handlers, reasons, pauses and following on the servers, as on SQLite.
# Proves: OPS-01, OPS-06
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
source "$(dirname "${BASH_SOURCE[0]}")/on_servers.sh"

because() {
    expect 0 why "$url" "$id" --json
    [[ $(json_value reason) == "$1" ]] || fail "the reason should be $1"
}
work() { expect 0 work "$url" --until-empty "$@"; }

for url in "${POSTHORN_TEST_POSTGRESQL%/*}/$name" "mariadb://root@$place/$name"; do
    expect 0 init "$url"
    enqueue --topic t --payload hello --header lang=de
    because no_worker_yet
    work --on t -- sh -c 'cat; echo "-$POSTHORN_HEADER_LANG"'
    out_is hello-de
    because 'done'
    enqueue --topic t --payload x
    work --backoff 1h --on t -- sh -c 'echo trouble >&2; exit 75'
    because retrying
    out_has 'trouble'
    enqueue --topic t --payload x --key k
    blocker=$id
    enqueue --topic t --payload x --key k
    because key_held
    work --on t -- sh -c 'exit 65'
    because key_blocked
    out_has "\"held_by\":\"$blocker\""
    expect 0 dead skip-key "$url" k
    expect 0 pause "$url" --topic t
    because paused
    work --on t -- true
    because parked_paused
    expect 0 stats "$url" --json
    [[ $(json_value parked) == 1 ]] || fail "one message is parked"
    expect 0 resume "$url" --topic t
    enqueue --topic orphan --payload x
    orphan=$id
    work --on t -- true
    because parked_no_handler
    "$worker" "$url" claim >/dev/null
    enqueue --topic t --payload x
    "$worker" "$url" claim >/dev/null
    because started
    # What is due is the database's to say, not this machine's.
    enqueue --topic t --payload x --delay 30m
    LD_PRELOAD=$(dirname "$worker")/liblate_clock.so run why "$url" "$id" --json
    [[ $(json_value reason) == delayed ]] || fail "it is due in half an hour"
    out_matches 'it is not due yet: in (29|30)m'
    expect 0 cancel "$url" "$id"

    # A worker at rest is woken by what comes, and what it does is followed.
    "$posthorn" tail "$url" --all --json >"$scratch/followed" 2>/dev/null &
    tail=$!
    "$posthorn" work "$url" --on new -- true 2>/dev/null &
    pid=$!
    enqueue --topic new --payload x
    tries=0
    until grep -q "\"id\":\"$id\".*\"state\":\"done\"" "$scratch/followed"; do
        ((++tries < 400)) || fail "the message should be done, and tail should say so"
        sleep 0.05
    done
    kill -TERM "$pid" "$tail"
    wait "$pid" || fail "the worker should drain"
    wait "$tail" || fail "tail should end"
done
