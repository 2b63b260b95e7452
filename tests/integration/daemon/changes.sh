#!/usr/bin/env bash
# A file that changes where messages go and who handles them: from then on they do; and a feed
# follows its store.
# Proves: OPS-03, OPS-04
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
: "${POSTHORN_TEST_REDIS:?is not set: run ./dev servers, and then this with what it prints}"
stream=daemon_$$_$RANDOM
expect 0 init "$url"
for each in old new; do
    expect 0 init "sqlite:$scratch/$each.db"
done
sqlite3 "$scratch/admin.db" "CREATE TABLE places (file TEXT); INSERT INTO places VALUES ('old')"
touch "$scratch/handled"
# configuration ON STREAM HANDLED-BY
configuration() {
    configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
name = "shop"
url = "$url"
[[stores]]
discover = { url = "sqlite:$scratch/admin.db", query = "SELECT 'office' AS name, file FROM places", name = "{name}", store = "sqlite:$scratch/{file}.db" }
every = "1s"
[transports.broker]
url = "$POSTHORN_TEST_REDIS"
[[relays]]
on = "$1"
to = "broker"
destination = "$2"
[[feeds]]
from = "$POSTHORN_TEST_REDIS"
stream = "$stream-fed"
group = "office"
source = "shop"
store = "office"
topic = "unnamed"
[[handlers]]
on = "t"
command = ["sh", "-c", "echo \$(cat) by $3 >>$scratch/handled"]
END
}
# length STREAM: how many messages it has.
length() {
    local place=${POSTHORN_TEST_REDIS##*/} answer
    exec 6<>"/dev/tcp/${place%:*}/${place##*:}"
    printf 'XLEN %s\r\n' "$1" >&6
    read -r -t 20 answer <&6
    exec 6<&- 6>&-
    tr -d ':\r' <<<"$answer"
}
# brought FILE: how many messages the feed has stored there.
brought() { "$posthorn" inbox list "sqlite:$scratch/$1.db" --limit 1000 --json | grep -o '"source":"shop"' | wc -l; }

configuration 'a.*' "$stream-1" anna
start
enqueue --topic a.x --payload x
until_true state_is "$id" 'done'
enqueue --topic t --payload first
until_true grep -q '^first by anna$' "$scratch/handled"
[[ $(length "$stream-1") == 1 ]] || fail "it went to the first stream"

# Another destination, for other topics, and another handler.
configuration 'b.*' "$stream-2" bert
reload
enqueue --topic b.x --payload x
until_true state_is "$id" 'done'
enqueue --topic t --payload second
until_true grep -q '^second by bert$' "$scratch/handled"
enqueue --topic a.x --payload x
until_true state_is "$id" parked
[[ $(length "$stream-1") == 1 && $(length "$stream-2") == 1 ]] || fail "it went to the second stream"
# And what waited for somebody goes there, too.
configuration '*' "$stream-fed" carl
sed -i 's/on = "\*"/on = ["a.*", "b.*"]/' "$config"
reload
until_true state_is "$id" 'done'
until_true eval '(($(brought old) == 1))'

# The feed's store moves: what comes from now on is where it is now, and each message once.
sqlite3 "$scratch/admin.db" "UPDATE places SET file = 'new'"
# arrives_there: a message that is fed now.
arrives_there() {
    enqueue --topic b.x --payload x
    sent=$((sent + 1))
    until_true eval '(($(brought old) + $(brought new) == sent))'
    (($(brought new) > 0))
}
sent=1
until_true arrives_there
before=$(brought old)
for _ in 1 2 3; do
    arrives_there || fail "it arrives in the new place"
done
[[ $(brought old) == "$before" ]] || fail "nothing comes to the old place"
stop
