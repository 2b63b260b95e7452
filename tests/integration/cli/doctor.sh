#!/usr/bin/env bash
# What a diagnosis says of work that nothing is done about, on every engine.
# Proves: OPS-01, F13
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
source "$(dirname "${BASH_SOURCE[0]}")/on_servers.sh"

# change TABLE ASSIGNMENT: changes all rows of a table of the store, behind its back.
change() {
    case $url in
    sqlite:*) sqlite3 "${url#sqlite:}" "UPDATE posthorn_$1 SET $2" ;;
    postgresql:*) psql -X -q "$url" -c "UPDATE posthorn.$1 SET $2" ;;
    mariadb:*) mariadb --no-defaults -h "${place%:*}" -P "${place#*:}" -u root "$name" -e "UPDATE posthorn_$1 SET $2" ;;
    esac
}
# finds LEVEL CHECK PATTERN [ADVICE]: the diagnosis says so, for people and for programs.
finds() {
    expect "$healthy" doctor "$url"
    out_matches "(^|"$'\n'")$1 +$2: $3"
    [[ -z ${4:-} ]] || out_has "$4"
    expect "$healthy" doctor "$url" --json
    out_matches "\"level\":\"$1\",\"check\":\"$2\",\"detail\":\"$3"
}
minutes=$((60 * 1000000))

for url in "$url" "${POSTHORN_TEST_POSTGRESQL%/*}/$name" "mariadb://root@$place/$name"; do
    expect 0 init "$url"
    # Warnings do not change the exit code. (The servers of the tests do not sync: a problem.)
    run doctor "$url"
    healthy=$status
    [[ $url != sqlite:* || $healthy == 0 ]] || fail "a new store is fine"
    finds ok 'due messages' '0, none is late'
    finds ok 'parked topics' none
    finds ok 'late jobs' none
    finds ok 'overdue leases' 0

    # Due, and no worker.
    enqueue --topic mail --payload x
    finds ok 'due messages' '1, none is late'
    change message "created_at = created_at - $((10 * minutes))"
    [[ $url != postgresql:* ]] || change message "due_at = due_at - $((10 * minutes))"
    finds warning 'due messages' "1, the oldest for 10 min, and no worker holds any: topics 'mail'" \
        'start a worker with handlers for these topics'
    expect 0 pause "$url"
    finds warning 'due messages' '.*the whole store is paused' 'posthorn resume'
    expect 0 resume "$url"
    expect 0 work "$url" --until-empty --on mail -- true
    finds ok 'due messages' '0, none is late'

    # At a limit of its handler it is as late as without one, and it is not parked.
    enqueue --topic crowded --payload x
    "$worker" "$url" park >/dev/null
    expect 0 why "$url" "$id" --json
    [[ $(json_value state) == ready && $(json_value reason) == at_limit ]] || fail "it waits for a limit"
    expect 0 messages "$url" --state ready --json
    out_has "$id"
    out_has '"at_limit":true,"parked_for":null'
    expect 0 stats "$url" --json
    [[ $(json_value ready)-$(json_value parked) == 1-0 ]] || fail "it is ready, not parked"
    finds ok 'parked topics' none
    expect 0 work "$url" --until-empty --on crowded -- true

    # Parked: no worker has a handler, or the topic is paused.
    enqueue --topic orphan --payload x
    expect 0 work "$url" --until-empty --on mail -- true
    finds warning 'parked topics' "messages parked: 1; no worker has a handler for 'orphan'" \
        'start a worker with a handler for these topics'
    expect 0 pause "$url" --topic mail
    enqueue --topic mail --payload x
    expect 0 work "$url" --until-empty --on mail -- true
    finds warning 'parked topics' "messages parked: 2; .*parked while paused: 'mail'" 'posthorn resume'
    expect 0 resume "$url" --topic mail
    expect 0 work "$url" --until-empty --on mail --on orphan -- true
    finds ok 'parked topics' none

    # Jobs: late, and ahead of a clock that was set back.
    expect 0 jobs add "$url" nightly --topic report --every 1h
    finds ok 'late jobs' none
    change job "next_at = next_at - $((180 * minutes))"
    finds warning 'late jobs' "'nightly'; the latest should have run 2 h ago" 'job.tick'
    change job "next_at = next_at + $((1800 * minutes))"
    finds warning 'jobs ahead' "not waiting for their next instant but for a later one: 'nightly'" 'set back'
    expect 0 jobs delete "$url" nightly

    # The clock ran ahead and was set back: the message waits for a time that was later then.
    enqueue --topic later --payload x --delay 1h
    expect 0 why "$url" "$id"
    out_lacks 'set back'
    change message "created_at = created_at + $((30 * minutes))"
    finds warning 'messages ahead' '1 that wait were written at a later time' 'check time synchronisation'
    expect 0 why "$url" "$id" --json
    [[ $(json_value reason) == delayed ]] || fail "it waits for its time"
    expect 0 why "$url" "$id"
    out_has "it is not due yet: in "
    out_has "the database's clock ran ahead and was set back: by it this message was last touched in "
    expect 0 cancel "$url" "$id"
    change message "created_at = created_at - $((30 * minutes))"

    # A worker that died.
    enqueue --topic mail --payload x
    "$worker" "$url" claim >/dev/null
    finds ok 'overdue leases' 0
    change batch "lease_until = lease_until - $((10 * minutes))"
    finds warning 'overdue leases' 1 'start a worker'
    expect 0 work "$url" --until-empty --on mail -- true
    finds ok 'overdue leases' 0
done
