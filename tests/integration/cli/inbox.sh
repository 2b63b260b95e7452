#!/usr/bin/env bash
# Messages from outside and keys of commands on the command line: what is known of them, another
# chance for what died, and letting go of a key.
# Proves: OPS-01, INB-01, INB-03, IDM-01, IDM-02
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

# The inbox.
expect 0 inbox list "$url"
err_has 'nothing from outside'
expect 0 inbox list "$url" --json
out_is '{"inbox":[],"next_after":null}'
for id in 1 2 3; do message=$("$worker" "$url" receive shop "$id"); done
expect 0 inbox list "$url" --limit 2
out_matches 'shop +1 +seen'
err_has 'there are more: --after 2'
expect 0 inbox list "$url" --limit 2 --after 2
out_matches "shop +3 +seen +$message"
[[ $err != *'there are more'* ]] || fail "this is the last page"
expect 0 inbox list "$url" --limit 3 --json
out_has '"next_after":null}'

# One is done, one dies and is revived, one waits.
expect 0 work "$url" --limit 1 --on 'inbox:orders' -- sh -c '[ "$(cat)" = "the order" ] && [ "$POSTHORN_HEADER_POSTHORN_SOURCE_ID" = 1 ]'
expect 0 work "$url" --limit 1 --on 'inbox:*' -- sh -c 'echo broken >&2; exit 65'
expect 0 inbox list "$url" --state done
out_matches 'shop +1 +done'
out_lacks dead
expect 0 inbox show "$url" shop 2
out_matches 'state +dead'
out_matches 'topic +inbox:orders'
out_matches 'last error +.*broken'
out_matches 'content hash +d41d8cd9'
expect 0 inbox show "$url" shop 2 --json
[[ $(json_value state) == dead && $(json_value source) == shop && $(json_value id) == 2 ]] || fail "it is dead"
expect 1 inbox revive "$url" shop 1
out_is 'nothing to revive: it is done'
expect 1 inbox revive "$url" shop 3 --json
out_is '{"source":"shop","id":"3","answer":"not_dead","state":"seen"}'
expect 0 inbox revive "$url" shop 2
out_is revived
expect 0 work "$url" --until-empty --on '*' -- true
expect 0 inbox list "$url" --source shop --json
out_lacks '"seen"'
out_lacks '"dead"'
expect 0 inbox list "$url" --source bank
err_has 'nothing from outside'
"$worker" "$url" receive shop 2 >/dev/null
expect 0 inbox show "$url" shop 2
out_matches 'state +done'

expect 1 inbox show "$url" shop 4
err_has "nothing is known of message '4' of 'shop'"
expect 1 inbox revive "$url" bank 1 --json
err_has '"code":"not_found"'
expect 2 inbox list "$url" --state ready
err_has 'is not a state of the inbox'
expect 2 inbox list "$url" --source ''
err_has 'must not be empty'
expect 2 inbox show "$url" shop
err_has 'ID is required'

# It forgets what is done only when it is told to, or after its retention.
expect 0 clean "$url" --keep 0s --json
[[ $(json_value inbox) == 0 ]] || fail "30 days are not over"
expect 0 clean "$url" --keep-inbox 0s --json
[[ $(json_value inbox) == 3 ]] || fail "three were done"

# The doctor sees what would never be known as done.
"$worker" "$url" receive shop 5 >/dev/null
expect 0 doctor "$url"
out_matches 'ok +inbox: no fault found'
sqlite3 "$scratch/store.db" 'DELETE FROM posthorn_join_member WHERE role = 3'
expect 1 doctor "$url"
out_has 'inbox: 1 messages from outside have lost track of theirs'

# Keys of commands.
expect 0 keys list "$url"
err_has 'no keys of commands'
[[ $("$worker" "$url" run charge k1) == executed ]]
[[ $("$worker" "$url" run charge k1) == replayed ]]
[[ $("$worker" "$url" reserve charge k2) == executed ]]
[[ $("$worker" "$url" run charge k2) == in-progress ]]
[[ $("$worker" "$url" run refund k1) == executed ]]
expect 0 keys list "$url"
out_matches 'charge +k1 +completed +1'
out_matches 'charge +k2 +in-progress +1 .*until in'
expect 0 keys list "$url" --command charge --state in-progress
out_has k2
out_lacks k1
expect 0 keys list "$url" --limit 1 --json
out_has '"next_after":{"command":"charge","key":"k1"}}'
expect 0 keys list "$url" --limit 1 --after charge k1
out_has k2
err_has "there are more: --after 'charge' 'k2'"
expect 0 keys list "$url" --after charge k2 --json
[[ $(json_value command) == refund ]] || fail "the page should begin behind the key"
out_has '"next_after":null}'

expect 0 keys show "$url" charge k1
out_matches 'result +4 bytes'
out_lacks paid
expect 0 keys show "$url" charge k1 --result
out_has paid
expect 0 keys show "$url" charge k1 --result --json
out_has '"result_bytes":4,"result_encoding":"text","result":"paid"}'
expect 0 keys release "$url" charge k2
out_has released
[[ $("$worker" "$url" run charge k2) == executed ]]
expect 0 keys release "$url" charge k2 --json
out_is '{"command":"charge","key":"k2","answer":"released"}'
expect 1 keys release "$url" charge k2
err_has "the command 'charge' has no key 'k2'"
expect 1 keys show "$url" charge k2 --json
err_has '"code":"not_found"'
expect 2 keys list "$url" --state done
err_has 'is not a state of keys'
expect 2 keys show "$url" charge
err_has 'KEY is required'
