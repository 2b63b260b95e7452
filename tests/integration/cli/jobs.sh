#!/usr/bin/env bash
# Jobs and timers on the command line: made, looked at, run, paused, and what became of them.
# Proves: OPS-01, SCH-01, SCH-03, SCH-04, COR-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
source "$(dirname "${BASH_SOURCE[0]}")/on_servers.sh"

# A preview needs no store: clocks in Vienna go forward on 28 March 2027.
expect 0 jobs preview --cron '30 2 * * *' --zone Europe/Vienna --from 2027-03-26T12:00:00Z --count 3
out_has '2027-03-27 02:30:00 +01:00 CET   2027-03-27 01:30:00'
out_has '2027-03-28 03:00:00 +02:00 CEST  2027-03-28 01:00:00  clocks go forward 60 min; its time does not exist on this day'
out_has '2027-03-29 02:30:00 +02:00 CEST  2027-03-29 00:30:00'
expect 0 jobs preview --cron '0 12 * * *' --zone Europe/Vienna --from 2027-10-31T00:00:00Z --count 1 --json
out_is '{"times":"0 12 * * *","zone":"Europe/Vienna","firings":[{"at":"2027-10-31T11:00:00.000000Z","local":"2027-10-31 12:00:00 +01:00 CET","clock_change_minutes":-60,"moved":false}]}'
expect 2 jobs preview --cron '0 0 30 2 *'
err_has 'never comes'
expect 2 jobs preview --cron '@daily' --zone Mars/Olympus
err_has 'time zone'
expect 2 jobs preview
expect 2 jobs preview --cron @daily --from yesterday
err_has '2027-03-28T01:00:00Z'

story() {
    expect 0 init "$url"
    expect 0 jobs list "$url"
    err_has 'no jobs'
    expect 0 jobs list "$url" --json
    out_is '{"jobs":[],"next_after":null}'
    expect 0 jobs add "$url" nightly --topic report --payload hello --cron '30 2 * * *' --zone Europe/Vienna
    out_has 'created; next at 20'
    expect 0 jobs add "$url" nightly --topic report --payload hello --cron '30 2 * * *' --zone Europe/Vienna --json
    out_has '"answer":"unchanged"'
    expect 0 jobs add "$url" poll --topic poll --every 90s --misfire skip --overlap queue --jitter 5s
    expect 2 jobs add "$url" bad --topic t --cron '61 * * * *'
    err_has "the minute '61' is not within 0 to 59"
    expect 2 jobs add "$url" bad --topic t --cron @daily --misfire never
    err_has 'fire-once'
    expect 2 jobs add "$url" bad --topic t --cron @daily --every 1h
    expect 0 jobs list "$url"
    out_matches 'nightly +30 2 \* \* \* +Europe/Vienna +20'
    out_matches 'poll +every 90 s'
    expect 0 jobs preview "$url" poll --count 2 --json
    out_has '"times":"every 90 s"'

    expect 0 jobs trigger "$url" nightly
    execution=$out
    expect 0 jobs history "$url" nightly --json
    out_has "\"id\":\"$execution\""
    out_has '"kind":"triggered","state":"enqueued"'
    expect 0 work "$url" --until-empty --on report -- sh -c 'cat; echo " $POSTHORN_HEADER_POSTHORN_JOB $POSTHORN_CORRELATION_ID"'
    out_is "hello nightly $execution"
    expect 0 jobs history "$url"
    out_matches "$execution +nightly +20.* +triggered +done"
    expect 0 jobs history "$url" --state failed --json
    out_is '{"executions":[],"next_before":null}'
    expect 0 trace "$url" "$execution"
    out_has "job nightly  done, triggered for 20"
    out_matches 'report +done'
    expect 0 trace "$url" "$execution" --json
    out_has "\"execution\":{\"id\":\"$execution\""

    expect 0 jobs pause "$url" nightly
    out_is paused
    expect 1 jobs pause "$url" nightly --json
    out_has '"answer":"unchanged"'
    expect 0 jobs show "$url" nightly
    out_matches 'state +paused'
    out_matches 'misfire +fire-once'
    out_has "$execution"
    expect 0 jobs resume "$url" nightly
    out_is resumed
    expect 1 jobs resume "$url" nightly
    expect 0 jobs show "$url" nightly --json
    out_has '"paused":false,"cron":"30 2 * * *","zone":"Europe/Vienna","every_seconds":null'
    out_has '"executions":[{"id":"'
    expect 0 jobs backfill "$url" nightly --from 2024-03-01T00:00:00Z --to 2024-03-08T00:00:00Z --limit 5
    out_is '5 executions added, 0 there already'
    err_has '--from 2024-03-06T01:30:00'
    expect 0 jobs backfill "$url" nightly --from 2024-03-01T00:00:00Z --to 2024-03-08T00:00:00Z --json
    out_has '"added":2,"known":5,"next_from":null'
    expect 0 jobs delete "$url" nightly
    out_is deleted
    expect 1 jobs show "$url" nightly
    err_has "there is no job 'nightly'"
    expect 1 jobs trigger "$url" nightly

    expect 0 timers list "$url"
    err_has 'no timers'
    expect 0 timers set "$url" remind --after 2h --topic mail.remind --payload hi
    out_is created
    expect 0 timers set "$url" remind --at 2099-01-01T00:00:00Z --topic mail.remind --json
    out_is '{"name":"remind","answer":"changed"}'
    expect 2 timers set "$url" remind --topic mail.remind
    err_has 'either --at or --after'
    expect 0 timers list "$url"
    out_matches 'remind +2099-01-01T00:00:00.000000Z +in [0-9]+d +mail.remind'
    expect 0 timers cancel "$url" remind
    out_is cancelled
    expect 1 timers cancel "$url" remind --json
    out_is '{"name":"remind","answer":"too_late"}'
    expect 0 timers list "$url" --json
    out_is '{"timers":[],"next_after":null}'
    expect 0 timers set "$url" now --after 0s --topic mail.now
    expect 0 work "$url" --until-empty --on 'mail.*' -- sh -c 'echo "$POSTHORN_TOPIC $POSTHORN_HEADER_POSTHORN_JOB_KIND"'
    out_is 'mail.now timer'
}

for url in "$url" "${POSTHORN_TEST_POSTGRESQL%/*}/$name" "mariadb://root@$place/$name"; do
    story
done
expect 0 doctor "sqlite:$scratch/store.db"

# Executions are removed when they are old, and cleaning says how many.
url=sqlite:$scratch/store.db
sqlite3 "$scratch/store.db" 'UPDATE posthorn_job_run SET ended_at = 1 WHERE ended_at IS NOT NULL'
ended=$(sqlite3 "$scratch/store.db" 'SELECT count(*) FROM posthorn_job_run WHERE ended_at = 1')
((ended > 0)) || fail "some executions have ended"
expect 0 clean "$url" --json
[[ $(json_value executions) == "$ended" ]] || fail "$ended executions are removed"
expect 0 clean "$url"
out_has ' and 0 executions of jobs'
