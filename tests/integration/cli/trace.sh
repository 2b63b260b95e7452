#!/usr/bin/env bash
# A correlation as a tree, on every store: what commands enqueue belongs to what they handle.
# Proves: OPS-01, COR-05, COR-06
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
source "$(dirname "${BASH_SOURCE[0]}")/on_servers.sh"
export posthorn

lines() { wc -l <"$scratch/out"; }

for url in "$url" "${POSTHORN_TEST_POSTGRESQL%/*}/$name" "mariadb://root@$place/$name"; do
    export url
    expect 0 init "$url"
    expect 1 trace "$url" order-7
    err_has "no message since "
    err_has "belongs to 'order-7'; --since looks further back"
    expect 1 trace "$url" order-7 --json
    err_has '{"error":{"code":"not_found",'

    # Commands enqueue without a word about correlation; the last of them fails.
    enqueue --topic order.placed --payload x --correlation order-7
    root=$id
    enqueue --topic other --payload x --correlation order-8
    expect 0 work "$url" --until-empty --attempts 1 \
        --on order.placed -- sh -c '
            "$posthorn" enqueue "$url" --topic mail.send --payload x >/dev/null
            "$posthorn" enqueue "$url" --topic stock.take --payload x >/dev/null
            "$posthorn" enqueue "$url" --topic aside --payload x --correlation mine --causation me >/dev/null' \
        --on mail.send -- sh -c '"$posthorn" enqueue "$url" --topic mail.sent --payload x >/dev/null' \
        --on stock.take -- sh -c 'echo "out of stock" >&2; exit 65' \
        --on '*' -- true
    expect 0 trace "$url" order-7
    (($(lines) == 4)) || fail "four messages belong to order-7"
    out_matches '^order\.placed +done +'"$root"' +20[0-9T:.Z-]+  waited [0-9.]+[a-z]+  ran [0-9.]+[a-z]+'
    out_matches $'\n├─ mail\.send +done +[0-9a-f-]{36} .*\n│  └─ mail\.sent +done +.*\n└─ stock\.take +dead +.*out of stock'
    out_lacks other
    expect 0 trace "$url" order-7 --json
    [[ $(json_value correlation) == order-7 ]] || fail "the correlation is named"
    out_has '"complete":true'
    out_matches "\"id\":\"$root\",.*\"caused_by\":null,\"depth\":0"
    out_matches "\"topic\":\"mail.send\",.*\"causation\":\"$root\",.*\"caused_by\":\"$root\",\"depth\":1"
    # Any of its messages will do, and what was said explicitly has won.
    child=$(sed -E 's/.*"id":"([0-9a-f-]+)","position":[0-9]+,"state":"dead".*/\1/' <<<"$out")
    expect 0 trace "$url" "$child"
    (($(lines) == 4)) || fail "a message's id stands for its correlation"
    expect 0 trace "$url" mine --json
    out_has '"causation":"me"'
    expect 0 trace "$url" order-7 --limit 2
    (($(lines) == 2)) || fail "no more than asked for"
    err_has 'there are more than 2: --limit'

    # A message without a correlation is the first of its own.
    enqueue --topic order.placed --payload x
    root=$id
    expect 0 work "$url" --until-empty --on order.placed -- \
        sh -c '"$posthorn" enqueue "$url" --topic later --payload x --delay 1h >/dev/null'
    expect 0 trace "$url" "$root"
    out_matches $'^order\.placed +done .*\n└─ later +delayed '

    # A join, its members and its continuation are one tree, though nothing opened a scope.
    mapfile -t joined < <("$worker" "$url" join 2 2)
    expect 0 work "$url" --until-empty --on extract -- true --on all.done -- true
    for each in "${joined[0]}" "${joined[2]}"; do
        expect 0 trace "$url" "$each"
        (($(lines) == 3)) || fail "two members and a continuation belong to the join"
        out_matches $'(^|\n)extract +done .*\n└─ all\.done +done '
    done

    # Causes that go in a circle, or lead to nowhere, are shown all the same.
    one=11111111-1111-7111-8111-111111111111 two=22222222-2222-7222-8222-222222222222
    enqueue --topic one --payload x --id $one --causation $two --correlation circle
    enqueue --topic two --payload x --id $two --causation $one --correlation circle
    enqueue --topic three --payload x --causation "$unknown_id" --correlation circle
    expect 0 trace "$url" circle
    out_matches $'^three +ready .*\none +ready .*\n└─ two +ready '
done

expect 2 trace "$url" ''
expect 2 trace "$url"
expect 2 trace "$url" x --since yesterday
expect 2 trace "$url" x --limit 0
