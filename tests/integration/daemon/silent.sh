#!/usr/bin/env bash
# Databases that accept connections and say nothing: other stores are served meanwhile, at the start
# and after a reload, and whoever wants the daemon to end does not wait for them.
# Proves: OPS-03, MDB-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
start_silent
# configuration HANDLER: a store that answers, and more that never do.
configuration() {
    configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
name = "shop"
url = "$url"
[[handlers]]
on = "t"
command = ["sh", "-c", "echo $1 >>$scratch/handled"]
[[stores]]
discover = { url = "postgresql://app@127.0.0.1:$silent/main", query = "SELECT slug FROM tenants", name = "{slug}", store = "sqlite:$scratch/{slug}.db" }
END
    local i
    for i in {1..6}; do
        cat >>"$config" <<END
[[stores]]
name = "tenant-$i"
url = "postgresql://app@127.0.0.1:$silent/main?schema=tenant_$i"
migrate = true
END
    done
}
# is_done_soon: enqueues a message, which must not have to wait for anybody.
is_done_soon() {
    enqueue --topic t --payload x
    local since=$SECONDS
    until_true state_is "$id" 'done'
    ((SECONDS - since < 10)) || fail "it had to wait for $((SECONDS - since)) seconds"
}
# ends_soon: with the first signal.
ends_soon() {
    local since=$SECONDS
    stop
    ((SECONDS - since < 10)) || fail "the end had to wait for $((SECONDS - since)) seconds"
}

configuration first
start
is_done_soon
get /readyz
[[ $code == 200 ]] || fail "it is ready: one store answers: $body"
# The next generation does not wait for them, either; until it works, the one before does.
configuration second
kill -HUP "$daemon"
is_done_soon
until_true log_has 'was read again'
is_done_soon
until_true grep -q second "$scratch/handled"
ends_soon
start
ends_soon
