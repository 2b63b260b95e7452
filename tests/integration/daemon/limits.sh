#!/usr/bin/env bash
# What one rule holds up is held up for that rule alone: a broker that is away, with however many
# and large messages, and handlers that may run one at a time, whatever the number of their topics.
# Proves: OPS-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
i=0 other=sqlite:$scratch/other.db
expect 0 init "$other"

# Nobody listens at port 1. away NAME IN_FLIGHT STORES: a new store, and two relays to nowhere.
away() {
    url=sqlite:$scratch/$1.db
    expect 0 init "$url"
    rm -f "$scratch/handled"
    configure <<END
[daemon]
in_flight = $2
concurrency = 2
listen = "127.0.0.1:0"
[[stores]]
name = "shop"
url = "$url"
$3
[transports.away]
url = "amqp://127.0.0.1:1"
[transports.also-away]
url = "amqp://127.0.0.1:1"
[[relays]]
on = ["late", "later.*"]
to = "away"
[[relays]]
on = "never"
to = "also-away"
[[handlers]]
on = "now"
command = ["sh", "-c", "echo x >>$scratch/handled"]
END
}
# handled COUNT: whether so many have been.
handled() { [[ -e $scratch/handled ]] && (($(wc -l <"$scratch/handled") == $1)); }

for stores in '' "[[stores]]
name = \"other\"
url = \"$other\""; do
    away "few$((++i))" 5 "$stores"
    enqueue --topic late --payload x --count 25
    enqueue --topic later.still --payload x --count 25
    enqueue --topic never --payload x --count 10
    start
    until_true metric_is 'posthorn_handlers_running 10'
    enqueue --topic now --payload x --count 5
    until_true handled 5
    until_true metric_is 'posthorn_deliveries_settled_total\{topic="now",outcome="done"\} 5'
    metric_is 'posthorn_handlers_running 10' || fail "each relay has its five in hand, and not one more"
    stop
    expect 0 stats "$url" --json
    (($(json_value ready) + $(json_value parked) == 60)) || fail "what waits is there as it was"
    expect 0 work "$url" --until-empty --on '*' -- true
    count_is 'done' 65 || fail "and can be handled: $out"
done
echo "a broker that is away holds up its own messages alone"

# Large ones fill the memory of their relay, and of nobody else.
away large 500 ''
head -c 1000000 /dev/zero | tr '\0' x | "$posthorn" enqueue "$url" --topic late --count 40 - >/dev/null
start
until_true metric_is 'posthorn_handlers_running 1[0-9]'
enqueue --topic now --payload x --count 5
until_true handled 5
stop
echo "nor do large ones"

# One at a time, for all topics of a handler together.
url=sqlite:$scratch/one.db
expect 0 init "$url"
configure <<END
[[stores]]
name = "shop"
url = "$url"
[[handlers]]
on = ["a.*", "b.*", "c"]
concurrency = 1
command = ["sh", "-c", "mkdir $scratch/inside || touch $scratch/overlap; sleep 0.05; rmdir $scratch/inside"]
END
for i in {1..4}; do
    enqueue --topic a.x --payload x
    enqueue --topic b.x --payload x
    enqueue --topic c --payload x
done
start
until_true count_is 'done' 12
stop
[[ ! -e $scratch/overlap ]] || fail "two of one handler ran at once"
echo "one at a time is one at a time"
