#!/usr/bin/env bash
# Many stores on one command line: patterns of files, lists in a file, and how each of them is doing.
# Proves: MDB-06, OPS-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
mkdir "$scratch/tenants"
for name in anna bert carl; do
    expect 0 init "sqlite:$scratch/tenants/$name.db"
    expect 0 enqueue "sqlite:$scratch/tenants/$name.db" --topic t --payload "for $name"
done
all="sqlite:$scratch/tenants/*.db"

# Each of them is shown, with its backlog and lag.
expect 0 stores "$all"
out_matches 'anna.db +idle|anna.db +busy'
out_has '3 stores, 0 failing'
long="$scratch/a folder with a name that is longer than any column of a table can be"
cp -r "$scratch/tenants" "$long"
expect 0 stores "sqlite:$long/*.db"
out_matches 'sqlite:.*….* can be/carl.db +busy'
expect 0 stores "$all" --json
out_matches '"name":"sqlite:[^"]*anna.db","state":"busy","breaker":"closed","backlog":1,"lag_seconds":[0-9.]+'
out_has '"failing":0'

# One worker for all; a command learns whose message it has.
expect 0 work "$all" --until-empty --json --on t -- sh -c 'cat >&2; echo " in $POSTHORN_STORE" >&2'
[[ $(json_value done) == 3 ]] || fail "three messages were there"
for name in anna bert carl; do
    err_has "for $name in sqlite:$scratch/tenants/$name.db"
done
expect 0 stores "$all" --json
out_has '"backlog":0,"lag_seconds":null'

# A list in a file, with names, comments and patterns; beside URLs.
cat >"$scratch/list" <<END
# the tenants
first = sqlite:$scratch/tenants/anna.db   # the oldest

sqlite:$scratch/tenants/b*.db
END
expect 0 stores "sqlite:$scratch/tenants/carl.db" --stores "$scratch/list" --json
out_has '"name":"first"'
out_has '"name":"sqlite:'"$scratch"'/tenants/bert.db"'
out_has '"name":"sqlite:'"$scratch"'/tenants/carl.db"'
expect 0 enqueue "sqlite:$scratch/tenants/anna.db" --topic t --payload x
expect 0 work --stores "$scratch/list" --until-empty --on t -- sh -c 'echo $POSTHORN_STORE'
out_is first

# A store that is broken costs the others nothing, and is shown for what it is.
printf 'no database' >"$scratch/tenants/dora.db"
for name in anna bert carl; do
    expect 0 enqueue "sqlite:$scratch/tenants/$name.db" --topic t --payload x
done
expect 0 work "$all" --until-empty --on t -- true
err_has ': 3 done,'
err_has "dora.db' fails and is left alone for a while"
expect 1 stores "$all"
out_matches 'dora.db +failing +open'
out_has '4 stores, 1 failing'
rm "$scratch/tenants/dora.db"

# Stores that appear while it works are found; a signal ends it.
"$posthorn" work "$all" --refresh 100ms --on t -- sh -c "touch $scratch/seen" >"$scratch/worker" 2>&1 &
pid=$!
trap 'kill -KILL "$pid" 2>/dev/null || true; rm -rf "$scratch"' EXIT
expect 0 init "sqlite:$scratch/tenants/emil.db"
expect 0 enqueue "sqlite:$scratch/tenants/emil.db" --topic t --payload x
tries=0
until [[ -e $scratch/seen ]]; do
    ((++tries < 1200)) || fail "the new store was never served: $(<"$scratch/worker")"
    sleep 0.05
done
kill -TERM "$pid"
wait "$pid" || fail "it should end gently: $(<"$scratch/worker")"

# Wrong usage.
expect 2 work --on t -- true
err_has 'URL is required'
expect 2 stores
expect 2 stores "sqlite:$scratch/none/*.db"
err_has 'no store at all'
expect 2 stores --stores "$scratch/none"
err_has 'cannot be read'
printf 'one = two\n' >"$scratch/list"
expect 2 stores --stores "$scratch/list"
err_has "$scratch/list:1: "
expect 0 stores --help
out_has 'posthorn stores --stores tenants.txt --json'
