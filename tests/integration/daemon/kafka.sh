#!/usr/bin/env bash
# Kafka through the program, with the broker that its client can pretend to be: one that starts and
# ends with the transport.
# Proves: OPS-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
name = "shop"
url = "$url"
[transports.kafka]
url = "kafka://nowhere.invalid"
settings = { "test.mock.num.brokers" = "1" }
[[relays]]
on = "orders.*"
to = "kafka"
destination = "orders"
key = "{topic.2}"
END
expect 0 serve --config "$config" --check
out_has 'transport  kafka: kafka://nowhere.invalid'
start
for i in {1..5}; do
    enqueue --topic "orders.$i" --payload "order $i" --count 5
done
until_true metric_is 'posthorn_published_total\{transport="kafka",answer="accepted"\} 25'
until_true metric_is 'posthorn_transport_ready\{transport="kafka"\} 1'
until_true count_is 'done' 25
stop

# The same with a verb: a key of a table, which has dots of its own.
enqueue --topic orders.6 --payload x --count 5
expect 0 relay "$url" --on 'orders.*' --to kafka://nowhere.invalid --destination orders \
    --set settings.test.mock.num.brokers=1 --set settings.socket.timeout.ms=5000 --until-empty --json
[[ $(json_value done) == 5 ]] || fail "five were relayed"
expect 2 relay "$url" --on t --to kafka://nowhere.invalid --set settings.linger.msec=5
err_has 'linger.msec'
expect 2 relay "$url" --on t --to kafka://nowhere.invalid --set setings.linger.ms=5
err_has "--set setings: is unknown: did you mean 'settings'?"
expect 2 relay "$url" --on t --to kafka://nowhere.invalid --set settings=5
err_has '--set settings: is a whole number; it should be a table of strings'
expect 2 relay "$url" --on t --to kafka://nowhere.invalid --set settings=5 --set settings.linger.ms=5
err_has "'settings' is given as a value and as a table"
for each in .linger=5 settings.=5 =5 settings; do
    expect 2 relay "$url" --on t --to kafka://nowhere.invalid --set "$each"
    err_has 'table.key=value for one of a table'
done
