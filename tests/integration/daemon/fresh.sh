#!/usr/bin/env bash
# What somebody meets who has never seen the daemon: the help, the guides, and the example, word for
# word as they are written.
# Proves: OPS-03, OUT-20, TRN-02, F5, F7
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
root=$(cd "$here/../../.." && pwd)
export DB_PASSWORD=secret RABBIT_PASSWORD=secret-of-rabbit PARTNER_SECRET=secret-of-partner
export PAYMENTS_SECRET=secret-of-payments NATS_PASSWORD=secret-of-nats REDIS_PASSWORD=secret-of-redis
export KAFKA_PASSWORD=secret-of-kafka HOOK_SECRET=secret-of-receiver

# The help has examples, and what it calls a small configuration is one.
expect 0 serve --help
out_has 'posthorn serve --config posthorn.toml --check'
out_has 'SIGHUP reads the file again'
sed -n '/^A small posthorn.toml:/,/^$/p' <<<"$out" | sed 's/^  //; 1d; s#./handle-order#true#' >"$config"
[[ -s $config ]] || fail "the help shows a configuration"
expect 0 serve --config "$config" --check
out_has 'handler    orders.* by true'

# blocks KIND FILE: the blocks of code of this kind, into $scratch/block.1, block.2, …
blocks() {
    rm -f "$scratch"/block.*
    awk -v kind="$1" -v to="$scratch/block." '
        $0 == "```" kind { inside = 1; ++count; next }
        /^```/ { inside = 0 }
        inside { print > (to count) }' "$2"
}

# Every configuration in the guides is right, and so is the example.
files=0
for guide in "$root"/docs/guides/*.md; do
    blocks toml "$guide"
    for each in "$scratch"/block.*; do
        [[ -e $each ]] || continue
        expect 0 serve --config "$each" --check
        out_lacks secret-of
        files=$((files + 1))
    done
    case ${guide##*/} in
    daemon.md | from-any-language.md | kafka.md | nats.md | rabbitmq.md | redis.md | webhooks.md)
        [[ -e $scratch/block.1 ]] || fail "${guide##*/} has a configuration"
        ;;
    esac
done
((files >= 12)) || fail "only $files configurations were looked at"

# So is every relay and feed that a guide writes in one line: of what is set, nothing is unknown but
# what is added here, and so nobody is connected to.
lines=0
for guide in "$root"/docs/guides/*.md; do
    while read -r line; do
        eval "words=(${line#posthorn })"
        expect 2 "${words[@]}" --set nonsense=1
        err_has '--set nonsense: is unknown'
        (($(grep -o -- '--set [a-z_]*:' <<<"$err" | wc -l) == 1)) || fail "${guide##*/}: $line"
        lines=$((lines + 1))
    done < <(grep -E '^posthorn (relay|feed) ' "$guide")
done
((lines >= 9)) || fail "only $lines lines were looked at"

expect 0 serve --config "$root/packaging/posthorn.toml" --check
# Without a key a relay takes the message's own, if it has one. A template would ask for it.
! grep -q '^#key = "{key}"' "$root/packaging/posthorn.toml" || fail "this is not what holds anyway"
err_is_empty
# Also with everything that is commented out.
sed -E 's/^#([a-z_]+ = |\[)/\1/' "$root/packaging/posthorn.toml" >"$config"
expect 0 serve --config "$config" --check --json
out_has '"valid":true'
out_has '"to":"partner"'
out_lacks secret-of
grep -q 'posthorn serve --config /etc/posthorn/posthorn.toml$' "$root/packaging/posthorn.service" ||
    fail "the unit starts the daemon"
if command -v systemd-analyze >/dev/null; then
    sed "s#/usr/bin/posthorn #$posthorn #" "$root/packaging/posthorn.service" >"$scratch/posthorn.service"
    complaints=$(systemd-analyze verify "$scratch/posthorn.service" 2>&1) ||
        { err=$complaints && fail "systemd does not take the unit"; }
    # What it does not understand it only mentions.
    [[ $complaints != *posthorn.service* ]] || { err=$complaints && fail "systemd wonders about the unit"; }
fi

# The guide for other languages, step by step.
mkdir "$scratch/shop" "$scratch/bin"
ln -s "$posthorn" "$scratch/bin/posthorn"
export PATH=$scratch/bin:$PATH
cd "$scratch/shop"
blocks python "$root/docs/guides/from-any-language.md"
cp "$scratch/block.1" place.py
cp "$scratch/block.2" confirm.py
blocks toml "$root/docs/guides/from-any-language.md"
cp "$scratch/block.1" posthorn.toml
blocks sh "$root/docs/guides/from-any-language.md"
mapfile -t steps <"$scratch/block.1"
((${#steps[@]} == 3)) || fail "it is three commands"
eval "${steps[0]}" >/dev/null
eval "${steps[1]}"
read -r -a last <<<"${steps[2]}"
[[ ${last[*]:0:2} == 'posthorn serve' ]] || fail "the last one is the daemon"
config=posthorn.toml
start
until_true test -s confirmed.txt
until_true count_is done 1 sqlite:shop.db
[[ $(<confirmed.txt) =~ ^[0-9a-f-]{36}\ 1$ ]] || fail "the order was confirmed"
log_has 'order 1 of ada, attempt 1' || fail "what a handler says can be read"
stop

# The same over HTTP: the guide's receiver, at a port that is free.
blocks python "$root/docs/guides/from-any-language.md"
sed 's/8000/0/' "$scratch/block.3" >ship.py
blocks sh "$root/docs/guides/from-any-language.md"
mapfile -t steps <"$scratch/block.2"
[[ ${steps[*]} == *'python3 ship.py & python3 place.py posthorn serve --config hooks.toml' ]] ||
    fail "it is the receiver, an order and the daemon"
eval "${steps[0]}"
[[ $HOOK_SECRET == whsec_* ]] || fail "it begins with a secret"
blocks toml "$root/docs/guides/from-any-language.md"

# receive: the receiver in the background, until it listens; its port is in $hooks.
receiver=''
trap '[[ -z $receiver ]] || kill "$receiver" 2>/dev/null || true; end_all' EXIT
receive() {
    : >receiver-out
    python3 ship.py >receiver-out 2>receiver-log &
    receiver=$!
    until_true grep -q '^listening on port [0-9]' receiver-out
    hooks=$(sed -n 's/^listening on port //p' receiver-out)
}
no_receiver() {
    kill "$receiver"
    wait "$receiver" || true
    receiver=''
}
shipped() { python3 -c 'import sqlite3, sys
print(sqlite3.connect("shipping.db").execute(f"SELECT count(*) FROM {sys.argv[1]}").fetchone()[0])' "$1"; }
is_shipped() { [[ $(shipped shipments) == "$1" ]]; }
is_refused() { "$posthorn" messages "$url" --state retrying --json | grep -q 'answered 401'; }
receive
sed "s/8000/$hooks/" "$scratch/block.2" >hooks.toml
printf '[daemon]\nlisten = "127.0.0.1:0"\n' >>hooks.toml # for this test alone: it asks
config=hooks.toml url=sqlite:shop.db
eval "${steps[3]}"
start
until_true is_shipped 1
until_true count_is done 2
grep -q '"POST /orders HTTP/1.1" 204' receiver-log || fail "the receiver accepted it"
stop

# Somebody else's secret: refused with a reason, and tried again until the secrets agree.
good=$HOOK_SECRET
HOOK_SECRET=whsec_$(openssl rand -base64 32)
eval "${steps[3]}"
start
until_true is_refused
count_is dead 0 || fail "it is not lost for a wrong secret"
is_shipped 1 || fail "nothing was shipped for a stranger"
stop
HOOK_SECRET=$good
start
until_true is_shipped 2
until_true count_is done 3

# While the receiver is away its messages wait, and lose no attempt.
no_receiver
sed -i "s/\"127.0.0.1\", 0/\"127.0.0.1\", $hooks/" ship.py
expect 0 enqueue "$url" --topic orders.placed --payload '{"order": 4}' --key ada
id=$out
until_true metric_is 'posthorn_published_total\{transport="shipping",answer="refused"\} [1-9][0-9]*'
count_is dead 0 || fail "nothing dies of a receiver that is away"
receive
until_true is_shipped 3
until_true state_is "$id" done
expect 0 message "$url" "$id" --json
[[ $(json_value attempts) == 1 ]] || fail "it has lost no attempt"
stop

# What comes again under the same id is accepted, and nothing is done for it.
other=sqlite:other.db
expect 0 init "$other"
expect 0 enqueue "$other" --topic orders.placed --payload '{"order": 4}' --id "$id"
expect 0 relay "$other" --on 'orders.*' --to "http://127.0.0.1:$hooks/orders" --set "secrets=$HOOK_SECRET" \
    --set allow_private=127.0.0.0/8 --until-empty --json
[[ $(json_value done) == 1 ]] || fail "it was accepted again"
(($(grep -c '" 204' receiver-log) == 2)) || fail "it came twice"
is_shipped 3 || fail "it was shipped twice"
[[ $(shipped seen) == 3 ]] || fail "three messages were seen"
no_receiver
