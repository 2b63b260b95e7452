#!/usr/bin/env bash
# A daemon that is killed in the middle of it: the next one handles, relays and feeds what was in
# hand, and nothing is lost.
# Proves: OPS-03, OPS-04
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
: "${POSTHORN_TEST_REDIS:?is not set: run ./dev servers, and then this with what it prints}"
stream=daemon_$$_$RANDOM
other=sqlite:$scratch/other.db
expect 0 init "$url"
expect 0 init "$other"
touch "$scratch/handled" "$scratch/arrived"
configure <<END
[daemon]
listen = "127.0.0.1:0"
lease = "1s"
concurrency = 3
backoff = "100ms"
[[stores]]
name = "shop"
url = "$url"
[[stores]]
name = "office"
url = "$other"
[transports.broker]
url = "$POSTHORN_TEST_REDIS"
[[relays]]
on = "out.*"
to = "broker"
destination = "$stream"
[[feeds]]
from = "$POSTHORN_TEST_REDIS"
stream = "$stream"
group = "office"
claim_after = "1s"
source = "shop"
store = "office"
topic = "unnamed"
[[handlers]]
on = "work"
command = ["sh", "-c", "id=\$(cat); sleep 0.05; echo \"\$id\" >>$scratch/handled"]
[[handlers]]
on = "inbox:out.*"
command = ["sh", "-c", "id=\$(cat); sleep 0.05; echo \"\$id\" >>$scratch/arrived"]
END
# send FROM TO: messages of both kinds.
send() {
    local i
    for ((i = $1; i <= $2; i++)); do
        expect 0 enqueue "$url" --topic work --payload "work $i"
        expect 0 enqueue "$url" --topic out.one --payload "out $i" --key "k$((i % 3))"
    done
}
handled() { sort -u "$scratch/handled" | wc -l; }
arrived() { sort -u "$scratch/arrived" | wc -l; }

send 1 30
killed=0
for at in 3 10 20; do
    start
    until_true eval '(($(handled) >= at && $(arrived) >= at))'
    kill -9 "$daemon"
    wait "$daemon" 2>/dev/null || true
    killed=$((killed + 1))
    (($(handled) < 30 && $(arrived) < 30)) || break # too quick: there was nothing left in hand
done
send 31 40
start
until_true eval '(($(handled) == 40 && $(arrived) == 40))'
until_true count_is done 80
until_true count_is done 40 "$other"
stop
for each in "$url" "$other"; do
    count_is dead 0 "$each" || fail "nothing died of it"
    count_is claimed 0 "$each" || fail "nothing is left in hand"
done
echo "killed $killed times: handled $(wc -l <"$scratch/handled") times, arrived $(wc -l <"$scratch/arrived") times"
