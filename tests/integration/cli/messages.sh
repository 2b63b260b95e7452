#!/usr/bin/env bash
# Looking at messages and taking them back. Payloads are shown only to those who ask.
# Proves: OPS-01, OUT-09
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

expect 0 messages "$url"
out_is ''
err_has 'no messages'
expect 0 messages "$url" --json
out_is '{"messages":[],"next_after":null}'

enqueue --topic orders.placed --payload top-secret
orders=$id
enqueue --topic mail --payload top-secret --key anna
mail=$id
enqueue --topic mail --payload top-secret --key anna --delay 90m
second_mail=$id

expect 0 messages "$url"
out_matches "^POSITION +ID +STATE +TOPIC .*$orders +ready +orders.placed.*$mail +ready +mail +anna"
out_matches "$second_mail +waiting +mail +anna"
out_lacks top-secret
expect 0 messages "$url" --json
out_lacks top-secret
out_has '"next_after":null}'

expect 0 messages "$url" --topic 'orders.*'
out_has "$orders"
out_lacks "$mail"
expect 0 messages "$url" --state waiting --key anna
out_has "$second_mail"
out_lacks "$mail"
expect 2 messages "$url" --state sleeping
err_has "'sleeping' is not a state; those are ready, delayed, retrying, waiting, parked, claimed, done, dead, cancelled and expired"
expect 2 messages "$url" --topic ''
expect 2 messages "$url" --limit 0

# Page by page.
seen=''
after=0
for _ in 1 2 3; do
    expect 0 messages "$url" --limit 1 --after "$after" --json
    seen+="$(json_value id) "
    after=$(json_value next_after)
done
[[ $seen == "$orders $mail $second_mail " && $after == null ]] || fail "the pages are: $seen"
expect 0 messages "$url" --limit 2
err_has 'there are more: --after'

expect 0 message "$url" "$mail"
out_matches "^id +$mail"$'\n'"state +ready"$'\n'"topic +mail"$'\n'"key +anna"
out_matches 'created +[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z \((now|[0-9]+s ago)\)'
out_matches 'payload +10 bytes$'
expect 0 message "$url" "$second_mail"
out_matches 'due +[0-9T:.-]+Z \(in 1h\)'
expect 0 message "$url" "$mail" --payload
out_matches $'payload +10 bytes\n\ntop-secret$'
expect 1 message "$url" "$unknown_id"
err_has "there is no message $unknown_id"
out_is ''
expect 1 message "$url" "$unknown_id" --json
err_has '{"error":{"code":"not_found",'
expect 2 message "$url" not-an-id
expect 2 message "$url"

# Text from outside cannot play tricks on a terminal.
enqueue --topic $'red\e[31m' --payload $'\e[2J'
expect 0 messages "$url"
out_has 'red\x1b[31m'
expect 0 message "$url" "$id" --payload
out_has '1b5b324a'
out_lacks $'\e'

# Cancelling answers with a word, and with the exit code.
expect 0 cancel "$url" "$orders"
out_is cancelled
expect 1 cancel "$url" "$orders"
out_is too_late
expect 1 cancel "$url" "$unknown_id" --json
out_is "{\"id\":\"$unknown_id\",\"answer\":\"not_found\"}"
expect 2 cancel "$url" not-an-id
expect 0 message "$url" "$orders" --json
out_has '"state":"cancelled"'

# A message that a worker has started is shown with its worker and lease, and is not given back.
[[ $("$worker" "$url" claim) == 2 ]] || fail "two messages should be due"
expect 0 message "$url" "$mail"
out_matches $'state +claimed, started\n'
out_matches $'\nlease until +[0-9T:.-]+Z \(in [0-9]+s\)\n'
out_matches $'\nworker +cli-worker\n'
expect 1 cancel "$url" "$mail"
out_is too_late

# A domain event says when it occurred; what stands under that name and is no time is none.
enqueue --topic order_placed --payload x
expect 0 message "$url" "$id" --json
out_has '"occurred_at":null'
# with_header VALUE: as a unit of work stores it.
with_header() {
    sqlite3 "$scratch/store.db" "UPDATE posthorn_message SET headers = json_object('posthorn-occurred-at', '$1') \
        WHERE seq = (SELECT max(seq) FROM posthorn_message)"
}
with_header 1740830400000000
expect 0 message "$url" "$id" --json
out_has '"occurred_at":"2025-03-01T12:00:00.000000Z"'
expect 0 message "$url" "$id"
out_has 'occurred'
for wrong in yesterday -1 17408304000000000000000 '1740830400000000 '; do
    with_header "$wrong"
    expect 0 message "$url" "$id" --json
    out_has '"occurred_at":null'
done
