#!/usr/bin/env bash
# Enqueueing: every option arrives, duplicates are told, and what no store accepts is refused before
# anything is written.
# Proves: OPS-01, OUT-02, OUT-07, F20, F21
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

uuid='[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'

# payload_is TEXT: what the last enqueued message carries.
payload_is() {
    expect 0 message "$url" "$id" --payload --json
    [[ $out == *"\"payload_encoding\":\"text\",\"payload\":\"$1\"}" ]] || fail "the payload should be '$1'"
}

enqueue --topic t --payload hello
out_matches "^$uuid\$"
payload_is hello
enqueue --topic t --payload ''
payload_is ''
enqueue --topic t --payload '[1,2]'
payload_is '[1,2]'
enqueue --topic t --payload -x
payload_is -x
enqueue --topic t - < <(printf 'from a pipe')
payload_is 'from a pipe'
enqueue --topic t - < <(printf '\x00\xff')
expect 0 message "$url" "$id" --payload
out_has $'\n00ff'

expect 0 enqueue "$url" --topic t --payload x --json
out_matches "^\{\"id\":\"$uuid\",\"position\":[0-9]+,\"duplicate\":false\}\$"

enqueue --topic orders --payload x --key anna --priority -7 --delay 1h --expires 2h --header a=1 \
    --header 'b=[x,y]=z' --correlation corr --causation cause
expect 0 message "$url" "$id" --json
for part in '"state":"delayed"' '"topic":"orders"' '"key":"anna"' '"priority":-7' \
    '"headers":{"a":"1","b":"[x,y]=z"}' '"correlation":"corr"' '"causation":"cause"'; do
    out_has "$part"
done
out_matches '"expires_at":"[0-9T:.-]+Z"'

expect 0 enqueue "$url" --topic t --payload x --id "$unknown_id"
out_is "$unknown_id"

# A duplicate is an answer, not an error: the id of the first message, and a word about it.
enqueue --topic t --payload x --dedup once
first=$id
expect 0 enqueue "$url" --topic t --payload other --dedup once --dedup-window 1h
out_is "$first"
err_has 'duplicate'
expect 0 enqueue "$url" --topic t --payload x --dedup once --json
out_has "{\"id\":\"$first\","
out_has '"duplicate":true}'
err_is_empty

# Many at once.
expect 0 stats "$url" --json
before=$(json_value ready)
expect 0 enqueue "$url" --topic bulk --payload x --count 2500 --json
out_matches "^\{\"count\":2500,\"first_id\":\"$uuid\",\"last_id\":\"$uuid\"\}\$"
expect 0 stats "$url" --json
(($(json_value ready) == before + 2500)) || fail "2,500 copies should have been added"
expect 0 enqueue "$url" --topic bulk --payload x --count 2
out_matches "^$uuid"$'\n'"$uuid\$"

# Refusals. None of them leaves a message behind.
expect 0 stats "$url" --json
before=$out
refused() {
    expect 2 enqueue "$url" "${@:2}"
    err_has "$1"
    out_is ''
}
refused 'either with --payload, or as -' --topic t
refused 'either with --payload, or as -' --topic t --payload x -
refused "'file.txt' is unexpected" --topic t file.txt
refused '--delay' --topic t --payload x --delay 5parsecs
refused '--count and --dedup' --topic t --payload x --count 2 --dedup d
refused '--count and --id' --topic t --payload x --count 2 --id "$unknown_id"
refused '--count' --topic t --payload x --count 0
refused "'me' is not a message id" --topic t --payload x --id me
refused 'the topic is empty' --topic '' --payload x
refused 'the topic is 501 bytes long; at most 500' --topic "$(printf '%501s' x)" --payload x
refused 'the ordering key is 256 bytes long' --topic t --payload x --key "$(printf '%256s' x)"
refused 'is not valid UTF-8' --topic $'\xff' --payload x
refused 'priority 101' --topic t --payload x --priority 101
refused 'a header is written name=value' --topic t --payload x --header novalue
refused 'empty name' --topic t --payload x --header =value
refused 'control character' --topic t --payload x --header $'a=b\nc'
refused "'a' is given twice" --topic t --payload x --header a=1 --header a=2
refused 'are reserved' --topic t --payload x --header posthorn-id=1
refused 'is reserved for messages from outside' --topic inbox:payments.paid --payload x
refused 'larger than 1048576 bytes' --topic t - < <(head -c 1048577 /dev/zero)
refused 'larger than 1048576 bytes' --topic t - < <(yes) # which never ends
expect 0 stats "$url" --json
[[ ${out/oldest_ready*/} == "${before/oldest_ready*/}" ]] || fail "a refused message was stored"

# The largest payload that is allowed.
enqueue --topic t - < <(head -c 1048576 /dev/zero)
expect 0 message "$url" "$id" --json
out_has '"payload_bytes":1048576,'

# Taken ids are refused by the store.
expect 1 enqueue "$url" --topic t --payload x --id "$unknown_id" --json
err_has '{"error":{"code":"constraint",'
