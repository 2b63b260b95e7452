#!/usr/bin/env bash
# Numbers that are not zero: what waits and for how long, what came late, what came twice, what
# somebody else had taken over, and which other systems are there.
# Proves: OPS-04
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
configure <<END
[daemon]
listen = "127.0.0.1:0"
lease = "1s"
grace = "1s"
[metrics]
refresh = "100ms"
stores_per_second = 1000
[[stores]]
name = "shop"
url = "$url"
[[endpoints]]
listen = "127.0.0.1:0"
path = "/in"
source = "partner"
unsigned_allowed = true
topic = "hook"
topic_wins = true
[[handlers]]
on = ["now", "inbox:hook"]
command = ["true"]
[[handlers]]
on = "steady"
command = ["sleep", "0.1"]
concurrency = 1
[[handlers]]
on = "slow"
command = ["sh", "-c", "echo x >>$scratch/slow; until test -e $scratch/go; do sleep 0.05; done"]
END
start
port=$(sed -n 's/.* listening at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log")
hooks=$(sed -n 's/.*listening for webhooks at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log")

# What waits, because everything is paused.
expect 0 pause "$url"
enqueue --topic now --payload x --count 2
enqueue --topic now --payload x --key k --count 3
until_true metric_is 'posthorn_store_backlog\{store="shop"\} 5'
until_true metric_is 'posthorn_store_messages\{store="shop",state="waiting"\} 2'
until_true metric_is 'posthorn_store_oldest_ready_seconds\{store="shop"\} 0\.[2-9].*'
metric_is 'posthorn_store_enqueued_total\{store="shop"\} 5' || fail "five were enqueued"
expect 0 resume "$url"
until_true metric_is 'posthorn_deliveries_settled_total\{topic="now",outcome="done"\} 5'
until_true metric_is 'posthorn_store_backlog\{store="shop"\} 0'
until_true metric_is 'posthorn_store_oldest_ready_seconds\{store="shop"\} 0'
metric_is 'posthorn_start_lag_seconds_count\{topic="now"\} 5' || fail "five have started"
metric_is 'posthorn_start_lag_seconds_bucket\{topic="now",le="0.1"\} 0' || fail "and all of them late"
metric_is 'posthorn_start_lag_seconds_sum\{topic="now"\} [1-9].*' || fail "together by more than a second"
metric_is 'posthorn_store_handled_total\{store="shop"\} 5' || fail "five were handled"

# One after the other: each claim finds what has been due for a while.
enqueue --topic steady --payload x --count 20
until_true metric_is 'posthorn_store_claim_lag_seconds\{store="shop"\} (0\.[1-9]|[1-9]).*'
until_true metric_is 'posthorn_start_lag_seconds_count\{topic="steady"\} 20'

# post ID: a webhook; what became of it is in $answer.
post() {
    exec 6<>"/dev/tcp/127.0.0.1/$hooks"
    printf 'POST /in HTTP/1.1\r\nHost: x\r\nwebhook-id: %s\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}' "$1" >&6
    answer=$(cat <&6)
    exec 6<&- 6>&-
}
for each in one two one one; do
    post $each
    [[ $answer == 'HTTP/1.1 20'* ]] || fail "it is taken: $answer"
done
until_true metric_is 'posthorn_fed_total\{source="partner",answer="stored"\} 2'
until_true metric_is 'posthorn_fed_total\{source="partner",answer="repeated"\} 2'

# A daemon that does not get round to renewing its lease loses what it has in hand.
enqueue --topic slow --payload x
until_true test -s "$scratch/slow"
kill -STOP "$daemon"
until_true eval '"$posthorn" work "$url" --on slow --until-empty -- true >/dev/null 2>&1; state_is "$id" "done"'
touch "$scratch/go"
kill -CONT "$daemon"
until_true metric_is 'posthorn_deliveries_settled_total\{topic="slow",outcome="lost"\} 1'
until_true log_has "a message is lost id=$id topic=slow store=shop"
stop

# Other systems: the endpoint of this daemon, and one that is away.
cat >>"$config" <<END
[transports.here]
url = "http://127.0.0.1:$hooks/in"
allow_private = ["127.0.0.0/8"]
[transports.away]
url = "amqp://127.0.0.1:1"
[transports.unused]
url = "amqp://127.0.0.1:1"
[[relays]]
on = "out"
to = "here"
[[relays]]
on = "late"
to = "away"
END
sed -i "0,/^\[\[endpoints\]\]/! { 0,/listen = \"127.0.0.1:0\"/ s/listen = \"127.0.0.1:0\"/listen = \"127.0.0.1:$hooks\"/ }" "$config"
start
port=$(sed -n 's/.* listening at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log")
enqueue --topic out --payload '{}' --count 3
enqueue --topic late --payload '{}'
until_true metric_is 'posthorn_published_total\{transport="here",answer="accepted"\} 3'
until_true metric_is 'posthorn_transport_ready\{transport="here"\} 1'
until_true metric_is 'posthorn_transport_ready\{transport="away"\} 0'
[[ $body != *'posthorn_transport_ready{transport="unused"}'* ]] || fail "nobody has tried that one"
python3 "$here/exposition.py" <<<"$body" >/dev/null || fail "the metrics are wrong"
stop
