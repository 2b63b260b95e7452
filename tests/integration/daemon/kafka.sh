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
