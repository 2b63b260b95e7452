#!/usr/bin/env bash
# A daemon at work: handlers, what it tells over HTTP and in its log, and how it ends.
# Proves: OPS-03, OPS-04
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
configure <<END
[daemon]
name = "courier"
log = "json"
log_level = "debug"
listen = "127.0.0.1:0"
grace = "20s"
backoff = "50ms"
attempts = 2

[metrics]
refresh = "100ms"
stores_per_second = 1000

[[stores]]
name = "shop"
url = "$url"

[[handlers]]
on = "work.*"
command = ["sh", "-c", "cat >>$scratch/done; echo handled >&2"]
concurrency = 1

[[handlers]]
on = "bad"
command = ["sh", "-c", "echo 'no such customer' >&2; exit 3"]

[[handlers]]
on = "slow"
command = ["sh", "-c", "echo \$\$ >$scratch/slow; until test -e $scratch/go; do sleep 0.05; done"]
END
start
first=''
for i in 1 2 3; do
    enqueue --topic work.now --payload "payload-$i;"
    first=${first:-$id}
done
until_true count_is done 3
[[ $(tr ';' '\n' <"$scratch/done" | sort | tr -d '\n') == payload-1payload-2payload-3 ]] ||
    fail "each payload arrives at its handler"
enqueue --topic bad --payload hidden-payload
bad=$id
until_true state_is "$bad" dead
enqueue --topic 'odd "\ topic' --payload x
odd=$id
until_true state_is "$odd" parked

# What it tells over HTTP.
get /healthz
[[ $code == 200 && $body == ok ]] || fail "it is alive: $code $body"
get /readyz
[[ $code == 200 && $body == *'"ready":true,"draining":false,"stores":1,"failing":0'* ]] ||
    fail "it is ready: $code $body"
get /nothing
[[ $code == 404 ]] || fail "there is no such page"
until_true metric_is 'posthorn_store_messages\{store="shop",state="dead"\} 1'
until_true metric_is 'posthorn_store_messages\{store="shop",state="parked"\} 1'
until_true metric_is 'posthorn_deliveries_settled_total\{topic="work.now",outcome="done"\} 3'
until_true metric_is 'posthorn_deliveries_settled_total\{topic="bad",outcome="dead"\} 1'
until_true metric_is 'posthorn_deliveries_settled_total\{topic="bad",outcome="retrying"\} 1'
until_true metric_is 'posthorn_deliveries_started_total\{topic="bad"\} 2'
until_true metric_is 'posthorn_handler_duration_seconds_count\{topic="work.now"\} 3'
until_true metric_is 'posthorn_store_backlog\{store="shop"\} 0'
until_true metric_is 'posthorn_store_failing\{store="shop"\} 0'
until_true metric_is 'posthorn_build_info\{version="[0-9.]+"\} 1'
until_true metric_is 'process_resident_memory_bytes [1-9][0-9]*'
get /metrics
samples=$(python3 "$here/exposition.py" <<<"$body") || fail "the metrics are not as Prometheus wants them"
((samples > 60)) || fail "only $samples samples"

# What it logs: JSON, with ids, and never a payload.
until_true log_has '"message":"a handler failed","id":"'"$bad"'","topic":"bad","store":"shop","attempt":1,"error":"exited with 3: no such customer"'
until_true log_has '"message":"a message is dead","id":"'"$bad"'","topic":"bad","store":"shop","attempt":2}'
[[ $(grep "$bad" "$log" | grep -c dead) == 1 ]] || fail "a death is told once"
[[ $(grep "$bad" "$log" | grep -c failed) == 2 ]] || fail "each failure is told once"
until_true log_has '"message":"a message is parked","id":"'"$odd"'","topic":"odd \"\\ topic","store":"shop"'
until_true log_has '"message":"output of a handler","id":"'"$first"'","topic":"work.now","store":"shop","output":"handled"'
until_true log_has '"level":"debug","message":"a message is done"'
log_lacks payload || fail "payloads do not belong into a log"
python3 -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)["level"]' "$log" || fail "every line of the log is JSON"

# SIGTERM: what runs ends, nothing new begins, and whoever asks is told.
enqueue --topic slow --payload x
slow=$id
until_true test -s "$scratch/slow"
kill -TERM "$daemon"
until_true log_has 'ending what is in hand'
get /readyz
[[ $code == 503 && $body == *'"draining":true'* ]] || fail "it is not ready any more: $code $body"
enqueue --topic work.now --payload late
touch "$scratch/go"
ends_with 0
state_is "$slow" 'done' || fail "what ran has ended"
state_is "$id" ready || fail "nothing new was begun"
grep -q '"message":"ended","how":"stopped","done":4' "$log" || fail "the end is told"

# A second SIGTERM does not wait.
rm "$scratch/go" "$scratch/slow"
start --json
enqueue --topic slow --payload x
until_true test -s "$scratch/slow"
kill -TERM "$daemon"
until_true log_has 'ending what is in hand'
kill -TERM "$daemon"
ends_with 1
[[ $(<"$scratch/daemon-out") == '{"ended":"stopped_now","done":'* ]] || fail "JSON says how it ended"
until_true eval '! kill -0 "$(<"$scratch/slow")" 2>/dev/null'
state_is "$id" ready || fail "what had to go is put back unharmed"

# A port that is taken, and a store that is not there.
configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
url = "sqlite:$scratch/later.db"
[[handlers]]
on = "t"
command = ["true"]
END
start
get /readyz
until_true eval 'get /readyz; [[ $code == 503 && $body == *"later.db"* ]]'
taken=$port
sed "s/:0\"/:$taken\"/" "$config" >"$scratch/second.toml"
expect 1 serve --config "$scratch/second.toml"
err_has "cannot listen at 127.0.0.1:$taken"
expect 0 init "sqlite:$scratch/later.db"
url=sqlite:$scratch/later.db
enqueue --topic t --payload x
until_true state_is "$id" 'done'
get /readyz
[[ $code == 200 ]] || fail "a store that comes later is served: $body"
stop
