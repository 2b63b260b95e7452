#!/usr/bin/env bash
# Joins on the command line: how far they are, what they wait for, their end, and another chance.
# Proves: OPS-01, JOIN-020, JOIN-023, JOIN-025
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
expect 0 joins list "$url"
err_has 'no joins'

# open EXPECTED MEMBERS: the ids are in $join and ${members[@]}.
open() {
    mapfile -t members < <("$worker" "$url" join "$1" "$2")
    join=${members[0]}
    members=("${members[@]:1}")
}
# because REASON TEXT [ID]: says so of the join, in words and as JSON.
because() {
    expect 0 why "$url" "${3:-$join}" --json
    [[ $(json_value reason) == "$1" ]] || fail "the reason should be $1"
    expect 0 why "$url" "${3:-$join}"
    out_has "$2"
}
work() { expect 0 work "$url" --until-empty "$@"; }

open 4 3
because waits_for_members '0 of 4 ended; it waits for 3 members; 1 member still to be attached'
out_has "posthorn why $url ${members[0]}"
expect 0 joins list "$url"
out_has "$join  pending"
out_has '░░░░░░░░░░░░░░░░░░░░  0 of 4'
out_has customer-7
wait=$("$worker" "$url" wait "$join")
because join_pending "it waits for join $join, of which 0 of 4 ended" "$wait"

expect 0 cancel "$url" "${members[0]}"
work --on '*' -- true
because members_missing '3 of 4 ended; 1 member still to be attached'
expect 0 joins list "$url" --state pending --group customer-7
out_has '██████████▒▒▒▒▒░░░░░  3 of 4       1'
expect 0 joins list "$url" --json
[[ $(json_value completed) == 2 && $(json_value failed) == 1 ]] || fail "the counts are wrong"
expect 0 joins list "$url" --group nobody
err_has 'no joins'
expect 0 joins list "$url" --state completed --json
out_is '{"joins":[],"next_after":null}'

expect 0 joins show "$url" "$join"
out_matches 'state +pending'
out_matches 'progress +█+▒+░+ 3 of 4'
out_matches "${members[0]} +failed"
out_matches "${members[1]} +completed"
expect 0 joins show "$url" "$join" --json
out_has '"on_complete":"all.done","on_fail":"went.wrong"'
out_has "\"members\":[{\"id\":\"${members[0]}\""

expect 0 joins cancel "$url" "$join"
out_is cancelled
because cancelled 'it was cancelled'
expect 1 joins cancel "$url" "$join" --json
out_has '"answer":"too_late"'

# With its members.
open 2 2
expect 0 joins cancel "$url" "$join" --members
expect 0 why "$url" "${members[1]}"
out_has 'it was cancelled'

# What failed gets another chance.
open 1 1
expect 1 joins redrive "$url" "$join"
work --on '*' -- sh -c 'exit 65'
because failed 'it failed'
out_has "posthorn joins redrive $url $join"
expect 0 joins redrive "$url" "$join"
out_has 'the join waits for 1 member again'
work --on '*' -- true
because completed 'it completed'
expect 0 messages "$url" --topic all.done
out_has all.done

# Also after its member was redriven singly, and is done.
open 1 1
work --on '*' -- sh -c 'exit 65'
because failed 'it failed'
expect 0 dead redrive "$url" "${members[0]}"
work --on '*' -- true
because failed 'it failed'
expect 0 joins redrive "$url" "$join" --json
out_has '"waits_for":0,"state":"completed"'
because completed 'it completed'
expect 1 joins redrive "$url" "$join"

# A member in another store: a worker for both tells the join, and `show` says where it is.
tenant=sqlite:$scratch/tenant.db
expect 0 init "$tenant"
open 2 1
there=$("$worker" "$tenant" member head-office "$join")
printf 'head-office = %s\nanna = %s\n' "$url" "$tenant" >"$scratch/stores"
expect 0 work --stores "$scratch/stores" --until-empty --on extract -- true
because completed '2 members completed, 0 failed'
expect 0 joins show "$url" "$join"
out_matches "${members[0]} +completed"
out_matches "$there +completed +anna"
expect 0 joins show "$url" "$join" --json
out_has "\"remote_members\":[{\"id\":\"$there\",\"store\":\"anna\",\"state\":\"completed\",\"reported\":\"completed\"}]"

expect 1 joins show "$url" "$unknown_id"
err_has 'there is no join'
expect 2 joins show "$url" nonsense
err_has "'nonsense' is not a join id"
expect 2 joins list "$url" --state waiting
err_has 'is not a state of joins'
