#!/usr/bin/env bash
# Webhooks, there and back: what is sent to an endpoint of the daemon, signed, is stored and handled
# once; a reload changes who may send while nothing is lost.
# Proves: OPS-03, INB-05, F7
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
sender=sqlite:$scratch/sender.db
expect 0 init "$url"
expect 0 init "$sender"
export POSTHORN_TEST_HOOK=whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5
touch "$scratch/arrived"
# configuration LISTEN PATH
configuration() {
    configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
name = "shop"
url = "$url"
[[endpoints]]
listen = "$1"
path = "$2"
source = "partner"
secrets = [{ env = "POSTHORN_TEST_HOOK" }]
store = "shop"
topic = "hook"
topic_wins = true
[[handlers]]
on = "inbox:hook"
command = ["sh", "-c", "cat >>$scratch/arrived"]
END
}
# send PATH SECRET COUNT: the sender's messages, relayed as webhooks until nothing is due.
send() {
    expect 0 enqueue "$sender" --topic h --payload '{"n": 1}
' --count "$3"
    id=$out
    expect 0 relay "$sender" --on h --to "http://127.0.0.1:$hooks$1" --set "secrets=$2" \
        --set allow_private=127.0.0.0/8 --until-empty --json
}
configuration 127.0.0.1:0 /hooks/first
start
port=$(sed -n 's/.* listening at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log")
hooks=$(sed -n 's/.*listening for webhooks at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log")
send /hooks/first "$POSTHORN_TEST_HOOK" 5
[[ $(json_value done) == 5 ]] || fail "five were accepted"
until_true eval '(($(wc -l <"$scratch/arrived") == 5))'
until_true metric_is 'posthorn_fed_total\{source="partner",answer="stored"\} 5'

# Who signs wrongly, or sends to nowhere, is refused, and may try again.
send /hooks/first whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXI= 1
[[ $(json_value retrying) == 1 ]] || fail "a wrong signature is refused"
expect 0 cancel "$sender" "$id"
send /hooks/nowhere "$POSTHORN_TEST_HOOK" 1
[[ $(json_value retrying) == 1 ]] || fail "there is no such path"
expect 0 cancel "$sender" "$id"

# Another path, at the same address.
configuration "127.0.0.1:$hooks" /hooks/second
kill -HUP "$daemon"
until_true log_has 'was read again'
send /hooks/second "$POSTHORN_TEST_HOOK" 3
[[ $(json_value done) == 3 ]] || fail "the new path takes them"
until_true eval '(($(wc -l <"$scratch/arrived") == 8))'
# An address that cannot be had changes nothing.
sed -i "s/\"127.0.0.1:$hooks\"/\"127.0.0.1:$port\"/" "$config"
kill -HUP "$daemon"
until_true log_has 'stays as it was'
send /hooks/second "$POSTHORN_TEST_HOOK" 1
[[ $(json_value done) == 1 ]] || fail "the old one goes on"
until_true eval '(($(wc -l <"$scratch/arrived") == 9))'
stop

# Two who send to one address are counted each by its own name.
configuration 127.0.0.1:0 /hooks/first
cat >>"$config" <<END
[[endpoints]]
listen = "127.0.0.1:0"
path = "/hooks/other"
source = "neighbour"
secrets = [{ env = "POSTHORN_TEST_HOOK" }]
store = "shop"
topic = "hook"
topic_wins = true
END
start
port=$(sed -n 's/.* listening at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log")
hooks=$(sed -n 's/.*listening for webhooks at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log")
send /hooks/first "$POSTHORN_TEST_HOOK" 2
send /hooks/other "$POSTHORN_TEST_HOOK" 3
until_true metric_is 'posthorn_fed_total\{source="partner",answer="stored"\} 2'
until_true metric_is 'posthorn_fed_total\{source="neighbour",answer="stored"\} 3'
stop
! grep -q Y2FuYXJ5 "$log" || fail "a secret was told"
