#!/usr/bin/env bash
# What somebody meets who has never seen the daemon: the help, the guides, and the example, word for
# word as they are written.
# Proves: OPS-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
root=$(cd "$here/../../.." && pwd)
export DB_PASSWORD=secret RABBIT_PASSWORD=secret-of-rabbit PARTNER_SECRET=secret-of-partner
export PAYMENTS_SECRET=secret-of-payments NATS_PASSWORD=secret-of-nats REDIS_PASSWORD=secret-of-redis

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
blocks toml "$root/docs/guides/daemon.md"
[[ -e $scratch/block.3 ]] || fail "the guide has three configurations"
for each in "$scratch"/block.*; do
    expect 0 serve --config "$each" --check
done
for guide in nats redis; do
    blocks toml "$root/docs/guides/$guide.md"
    [[ -e $scratch/block.1 ]] || fail "$guide.md has a configuration"
    expect 0 serve --config "$scratch/block.1" --check
    out_lacks secret-of
done
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
