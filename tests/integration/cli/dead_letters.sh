#!/usr/bin/env bash
# Operators set right what failed for good: they look, try without effect, redrive, purge, and set
# blocked keys free.
# Proves: OPS-01, OUT-13
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

# die ERROR ARGUMENTS…: enqueues a message and lets it fail; its id is in $id.
die() {
    enqueue --payload top-secret "${@:2}"
    [[ $("$worker" "$url" fail "$1") == 1 ]] || fail "one message should have failed"
}
state_of() {
    expect 0 message "$url" "$1" --json
    json_value state
}

expect 0 dead list "$url"
err_has 'no dead messages'
expect 0 dead keys "$url"
err_has 'no blocked keys'
expect 0 dead keys "$url" --json
out_is '{"keys":[]}'

die 'connect: timeout' --topic mail
mail=$id
die 'no such customer' --topic orders
orders=$id

expect 0 dead list "$url"
out_matches "^POSITION +ID +TOPIC .*$mail +mail .*connect: timeout.*$orders +orders .*no such customer"
out_lacks top-secret
expect 0 dead list "$url" --topic mail --limit 5
out_lacks "$orders"
expect 0 dead list "$url" --error customer
out_lacks "$mail"
expect 0 dead list "$url" --limit 1 --json
[[ $(json_value state) == dead && $(json_value next_after) != null ]] || fail "one of two dead ones"
expect 0 dead show "$url" "$mail" --payload
out_matches $'^id .*state +dead\n.*last error +connect: timeout\n.*\n\ntop-secret$'
expect 1 dead show "$url" "$unknown_id"
err_has 'there is no message'
enqueue --topic idle --payload x --delay 1h
expect 1 dead show "$url" "$id"
err_has 'is not dead, but delayed'

# Without a selector nothing happens: "all" must be said, and an unset variable is not "all".
for verb in redrive purge; do
    expect 2 dead "$verb" "$url"
    err_has 'say which dead messages'
    expect 2 dead "$verb" "$url" --topic ''
    expect 2 dead "$verb" "$url" --topic '' --error timeout
    expect 2 dead "$verb" "$url" --all --topic mail
    expect 2 dead "$verb" "$url" "$mail" --all
    expect 2 dead "$verb" "$url" not-an-id
    expect 1 dead "$verb" "$url" "$unknown_id"
    expect 1 dead "$verb" "$url" "$id" --json
    err_has '{"error":{"code":"not_found",'
    expect 0 dead "$verb" "$url" --all --dry-run
    out_has ': 2 dead messages'
    expect 0 dead "$verb" "$url" "$mail" --dry-run --json
    out_is '{"count":1,"dry_run":true}'
done
expect 0 dead redrive "$url" --topic 'ma*' --error timeout --dry-run
out_is 'would be redriven: 1 dead message'
[[ $(state_of "$mail") == dead && $(state_of "$orders") == dead ]] || fail "a dry run changed something"
expect 2 dead redrive "$url" --all --rate 0
expect 2 dead redrive "$url" "$mail" --rate 5

expect 0 dead redrive "$url" "$mail"
out_is 'redriven: 1 dead message'
[[ $(state_of "$mail") == ready ]] || fail "a redriven message is ready again"
expect 0 message "$url" "$mail"
out_matches $'\nredrives +1\n'
[[ $("$worker" "$url" acknowledge) == 1 ]] || fail "a redriven message is delivered again"

# A rate spreads the messages over time.
expect 0 enqueue "$url" --topic many --payload x --count 10
"$worker" "$url" fail boom >/dev/null
expect 0 dead redrive "$url" --error boom --rate 0.01 --json
out_is '{"count":10,"dry_run":false}'
expect 0 stats "$url" --json
(($(json_value delayed) + $(json_value retrying) == 10)) || fail "nine of ten (and the idle one) should start later"

"$worker" "$url" acknowledge >/dev/null
expect 0 dead purge "$url" "$orders"
out_is 'purged: 1 dead message'
expect 1 message "$url" "$orders"
die 'over and over' --topic orders
expect 0 dead purge "$url" --all --json
out_is '{"count":1,"dry_run":false}'
expect 0 dead list "$url" --json
out_is '{"messages":[],"next_after":null}'

# A dead message holds back its ordering key until somebody decides.
die 'stuck' --topic mail --key anna
blocker=$id
enqueue --topic mail --payload x --key anna
expect 0 dead keys "$url"
out_matches "^KEY +WAITING .*anna +1 .*$blocker +mail +stuck"
expect 0 dead keys "$url" --limit 5 --json
out_matches "^\{\"keys\":\[\{\"key\":\"anna\",\"dead_message\":\"$blocker\",\"topic\":\"mail\",\"last_error\":\"stuck\",\"since\":\"[^\"]+\",\"waiting\":1\}\]\}\$"
expect 0 stats "$url"
out_has 'blocked ordering keys: 1'
[[ $("$worker" "$url" acknowledge) == 0 ]] || fail "a blocked key must hold its messages back"
expect 1 dead retry-key "$url" berta
err_has "the ordering key 'berta' is not blocked"
expect 0 dead retry-key "$url" anna
out_is retrying
[[ $("$worker" "$url" acknowledge) == 2 ]] || fail "both messages should run after the retry"

die 'stuck' --topic mail --key list # a key may be named like a verb
enqueue --topic mail --payload x --key list
expect 0 dead skip-key "$url" list --json
out_is '{"key":"list","answer":"skipped"}'
expect 1 dead skip-key "$url" list
[[ $("$worker" "$url" acknowledge) == 1 ]] || fail "the next message should run after the skip"
