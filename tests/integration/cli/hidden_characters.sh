#!/usr/bin/env bash
# What others wrote cannot play tricks on a terminal: characters that break a line, take no room or
# turn the direction of writing are shown escaped, wherever they come from.
# Proves: OPS-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

# A right-to-left override, an isolate, line and paragraph separators, a zero-width space, a byte
# order mark, a C1 control that begins escape sequences, a tag beyond the first plane, and ESC.
hidden=$'a\u202eb\u2066c\u2028d\u2029e\u200bf\ufeffg\u009bh\U000e0041i\u061cj\u2069k'
shown='a\u202eb\u2066c\u2028d\u2029e\u200bf\ufeffg\x9bh\U000e0041i\u061cj\u2069k'
in_json='a\u202eb\u2066c\u2028d\u2029e\u200bf\ufeffg\u009bh\udb40\udc41i\u061cj\u2069k'
# The first byte or bytes of each, as they must never be in what is printed.
raw=$'\u202e|\u2066|\u2028|\u2029|\u200b|\ufeff|\u009b|\U000e0041|\u061c|\u2069|\x1b'

is_clean() {
    ! grep -qE -- "$raw" "$scratch/out" "$scratch/err" || fail "raw characters are printed by: $1"
}
# shows STATUS WHERE ARGUMENTS…: the text is shown escaped, as text and as JSON.
shows() {
    local where=$2
    expect "$1" "${@:3}"
    is_clean "${*:3}"
    [[ $(<"$scratch/$where") == *'a\u202eb\u2066c'* ]] || fail "$where should show the escaped text"
}
shows_json() {
    expect "$1" "${@:3}" --json
    is_clean "${*:3} --json"
    [[ $(<"$scratch/$2") == *"$in_json"* ]] || fail "$2 should have the text, escaped for JSON"
}

# Payload, topic, key and correlation of a message.
without_controls=${hidden//$'\u009b'/} plain_shown=${shown//'\x9b'/} plain_json=${in_json//'\u009b'/}
expect 0 enqueue "$url" --topic "$hidden" --key "$hidden" --header "x=$hidden" --payload "$without_controls"
id=$out
shows 0 out message "$url" "$id"
out_has "$shown"
shows_json 0 out message "$url" "$id"
[[ $(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["topic"], end="")' "$out") == "$hidden" ]] ||
    fail "a reader of the JSON should find the topic as it is"
expect 0 message "$url" "$id" --payload
is_clean payload
out_has "
$plain_shown"
expect 0 message "$url" "$id" --payload --json
is_clean "payload --json"
out_has "\"payload\":\"$plain_json\""
shows 0 out messages "$url"
shows_json 0 out messages "$url"
expect 0 why "$url" "$id"
is_clean why

# The name of a worker, and what a handler says.
expect 0 enqueue "$url" --topic t --payload x
id=$out
expect 0 work "$url" --name "$hidden" --on t --until-empty --attempts 1 -- \
    sh -c "printf %s '$without_controls' >&2; exit 65"
[[ $err == *"working  as $shown"* ]] || fail "the worker's name should be escaped"
expect 0 message "$url" "$id"
is_clean "last error"
out_has "exited with 65: $plain_shown"
expect 0 dead list "$url"
is_clean "dead list"
expect 0 pause "$url" --topic "$hidden"
is_clean pause

# What was typed, in errors: also a line break, which could look like another message.
typed="$hidden"$'\n'"posthorn: all is well"
for arguments in "$typed" "message $url" "stats --$typed" "messages $url --state" "messages $url --limit" \
    "work $url --concurrency" "enqueue $url --at" "stats" "keys show $url c"; do
    read -ra words <<<"${arguments/"$typed"/}"
    run "${words[@]}" "$typed"
    ((status != 0)) || fail "this is no good request"
    is_clean "an error of $arguments"
    [[ $(grep -c '^posthorn: ' "$scratch/err") == 1 ]] || fail "one error is one line"
    run "${words[@]}" "$typed" --json
    is_clean "an error of $arguments --json"
done
