#!/usr/bin/env bash
# To other systems and back: what one store relays through a broker is fed into the inbox of another
# and handled there, each message once.
# Proves: OPS-03, OPS-04, TRN-01, TRN-02, TRN-03, INB-05, F5
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
: "${POSTHORN_TEST_RABBITMQ:?is not set: run ./dev servers, and then this with what it prints}"
: "${POSTHORN_TEST_NATS:?is not set: run ./dev servers, and then this with what it prints}"
: "${POSTHORN_TEST_REDIS:?is not set: run ./dev servers, and then this with what it prints}"
name=daemon_$$_$RANDOM
other=sqlite:$scratch/other.db
expect 0 init "$url"
expect 0 init "$other"

# A NATS stream and its consumer belong to somebody: here they are made by hand, in the protocol.
# ask SUBJECT JSON: what JetStream answers.
ask() {
    local place=${POSTHORN_TEST_NATS##*@} line
    place=${place##*/}
    exec 6<>"/dev/tcp/${place%:*}/${place##*:}"
    printf 'CONNECT {"verbose":false}\r\nSUB answer.%s 1\r\nPUB $JS.API.%s answer.%s %d\r\n%s\r\n' \
        "$name" "$1" "$name" "${#2}" "$2" >&6
    while read -r -t 20 line <&6; do
        [[ $line != *'"type":"io.nats.jetstream.api'* ]] || break
    done
    exec 6<&- 6>&-
    [[ $line == *'"created"'* ]] || fail "JetStream says no to $1: $line"
}
ask "STREAM.CREATE.$name" "{\"name\":\"$name\",\"subjects\":[\"$name.>\"],\"storage\":\"memory\"}"
ask "CONSUMER.DURABLE.CREATE.$name.office" "{\"stream_name\":\"$name\",\"config\":{\"durable_name\":\"office\",
\"ack_policy\":\"explicit\",\"deliver_policy\":\"all\",\"replay_policy\":\"instant\",\"max_deliver\":-1}}"

# route BROKER TRANSPORT FEED DESTINATION: through this broker, and back.
route() {
    rm -f "$scratch/arrived"
    touch "$scratch/arrived"
    configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
name = "shop"
url = "$url"
[[stores]]
name = "office"
url = "$other"
[transports.broker]
$2
[[relays]]
on = "$1.*"
to = "broker"
destination = "$4"
[[feeds]]
$3
source = "from-$1"
store = "office"
topic = "$1.unnamed"
[[handlers]]
on = "inbox:$1.*"
command = ["sh", "-c", "echo \"\$POSTHORN_TOPIC \$(cat)\" >>$scratch/arrived"]
END
    expect 0 serve --config "$config" --check
    start
    local i
    for i in {1..25}; do
        expect 0 enqueue "$url" --topic "$1.placed" --payload "order $i" --key "k$((i % 3))"
    done
    until_true eval '(($(wc -l <"$scratch/arrived") >= 25))'
    until_true eval 'metric_is "posthorn_fed_total\{source=\"from-'"$1"'\",answer=\"stored\"\} 25"'
    until_true metric_is "posthorn_deliveries_settled_total\\{topic=\"$1.placed\",outcome=\"done\"\\} 25"
    metric_is 'posthorn_published_total\{transport="broker",answer="accepted"\} 25' ||
        fail "$1: each message was published once"
    python3 "$here/exposition.py" <<<"$body" >/dev/null || fail "the metrics are wrong"
    # The file may change on the way.
    kill -HUP "$daemon"
    until_true log_has 'was read again'
    for i in {26..30}; do
        expect 0 enqueue "$url" --topic "$1.placed" --payload "order $i" --key k
    done
    until_true eval '(($(wc -l <"$scratch/arrived") >= 30))'
    stop
    [[ $(sort -u "$scratch/arrived" | wc -l) == 30 ]] || fail "$1: each of them arrived"
    [[ $(grep -c "^inbox:$1.placed order" "$scratch/arrived") == 30 ]] || fail "$1: each of them once"
    echo "$1: there and back"
}
route amqp "url = \"$POSTHORN_TEST_RABBITMQ\"" \
    "from = \"$POSTHORN_TEST_RABBITMQ\"
queue = \"$name\"
declare = true
quorum = false" "/$name"
route redis "url = \"$POSTHORN_TEST_REDIS\"" \
    "from = \"$POSTHORN_TEST_REDIS\"
stream = \"$name\"
group = \"office\"" "$name"
route nats "url = \"$POSTHORN_TEST_NATS\"
prefix = \"$name.\"" \
    "from = \"$POSTHORN_TEST_NATS\"
stream = \"$name\"
consumer = \"office\"" '{topic}'

# The same with verbs alone.
for i in 1 2 3; do
    expect 0 enqueue "$url" --topic verbs.one --payload "by verb $i"
done
expect 0 relay "$url" --on 'verbs.*' --to "$POSTHORN_TEST_RABBITMQ" --destination "/$name" \
    --until-empty --json
[[ $(json_value done) == 3 ]] || fail "three were relayed"
expect 0 feed "$other" --from "$POSTHORN_TEST_RABBITMQ" --set "queue=$name" --source verbs --limit 3 --json
out_has '"stored":3,"repeated":0,"refused":0'
expect 0 work "$other" --until-empty --on 'inbox:verbs.*' -- cat
out_matches 'by verb'
expect 2 feed "$other" --from "$POSTHORN_TEST_RABBITMQ" --set qeue=x --source s
err_has "--set queue: is missing"
err_has "--set qeue: is unknown: did you mean 'queue'?"
expect 2 relay "$url" --on t --to amqp
err_has '--to is no URL of a transport'
expect 2 relay "$url" --on t --to broker:1
err_has '--to is no URL of a transport'
expect 2 relay "$url" --on t --to "$POSTHORN_TEST_RABBITMQ" --destination '{nothing}'
expect 2 relay "$url" --on t --to "$POSTHORN_TEST_RABBITMQ" --set window=many
err_has '--set window: is a string; it should be a whole number'

# A broker that is away: messages wait, and lose no attempt.
configure <<END
[daemon]
log_level = "debug"
[[stores]]
url = "$url"
[transports.away]
url = "amqp://anna:secret-canary@127.0.0.1:1"
[[relays]]
on = "late"
to = "away"
END
expect 1 serve --config "$config" --check --connect
out_has 'FAILED     transport away: cannot be reached'
out_lacks canary
start
expect 0 enqueue "$url" --topic late --payload x
id=$out
until_true state_is "$id" claimed
stop
expect 0 message "$url" "$id" --json
[[ $(json_value attempts) == 0 && $(json_value state) == ready ]] || fail "it waits as it was"
log_lacks canary || fail "a password was told"
