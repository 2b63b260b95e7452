#!/usr/bin/env bash
# The guided tour: the life of a few messages, told by the program itself.
#
#   tools/tour.sh PROGRAM WORKER
#
# Works on a fresh SQLite store in build/tour, and leaves it there to play with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $# -lt 2 || ! -x $1 || ! -x $2 ]]; then
    echo "usage: tools/tour.sh PROGRAM WORKER   (or ./dev tour, which builds them)" >&2
    exit 2
fi
binary=$(realpath "$1")
worker=$(realpath "$2")
rm -rf build/tour
mkdir -p build/tour
cd build/tour
url=sqlite:orders.db

colour() {
    if [[ -t 1 && -z ${NO_COLOR:-} ]]; then printf '\e[%sm%s\e[0m' "$1" "$2"; else printf %s "$2"; fi
}
say() { printf '\n%s\n' "$(colour 1 "$1")"; }

# Words as one would type them: only those that need quotes get them.
typed() {
    local word text=posthorn
    for word; do
        [[ $word =~ ^[A-Za-z0-9_.:/=-]+$ ]] || word="'$word'"
        text+=" $word"
    done
    printf %s "$text"
}

show() {
    printf '%s\n' "$(colour 36 "\$ $(typed "$@")")"
    "$binary" "$@"
}

# The id of the only message of a topic.
id_of() {
    local page
    page=$("$binary" messages "$url" --topic "$1" --json)
    [[ $page =~ \"id\":\"([0-9a-f-]+) ]] && printf %s "${BASH_REMATCH[1]}"
}

say 'A store is a few tables in a database; here, in a new SQLite file.'
show init "$url"

say 'A message is a topic and a payload. It can wait, keep its order, go first, and be told once.'
show enqueue "$url" --topic orders.placed --payload '{"order": 7}'
show enqueue "$url" --topic mail.reminder --payload 'Dear Anna, …' --delay 10m --header lang=en
show enqueue "$url" --topic orders.paid --payload '{"order": 7}' --key order-7
show enqueue "$url" --topic orders.shipped --payload '{"order": 7}' --key order-7
show enqueue "$url" --topic alarm --payload 'stock is low' --priority 50
show enqueue "$url" --topic invoices --payload '{"invoice": 1}' --dedup invoice-1
show enqueue "$url" --topic invoices --payload '{"invoice": 1}' --dedup invoice-1

say 'They all wait for a worker; "shipped" also waits for "paid", which has the same key.'
show messages "$url"

reminder=$(id_of mail.reminder)
say 'One of them, with all that is known of it. Payloads are shown to those who ask.'
show message "$url" "$reminder" --payload

say 'What has not started can be taken back.'
show cancel "$url" "$reminder"

say 'A worker claims what is due, most important first, and settles it. This one is examples/worker.'
printf '%s\n' "$(colour 36 "\$ example_worker $url")"
"$worker" "$url"

say 'The life of each message, as it stands now: done, dead, or taken back.'
show messages "$url"
show message "$url" "$(id_of orders.shipped)"
show stats "$url"

say 'What failed for good is kept until somebody decides: try again, or throw away.'
show dead list "$url"
show dead redrive "$url" --topic alarm
show messages "$url" --state ready

say 'Is everything in order?'
show doctor "$url"

program=${binary#"$(realpath ../..)"/}
say 'The store is build/tour/orders.db. Try next:'
cat <<END
  $program --help
  $program messages sqlite:build/tour/orders.db --topic 'orders.*' --json
  $program enqueue sqlite:build/tour/orders.db --topic load --payload x --count 100000
  $program migrate sqlite:build/tour/orders.db --print
END
