#!/usr/bin/env bash
# Many stores: by pattern and by query, found while the daemon runs, created only if it is told to.
# Proves: OPS-03, MDB-06
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
mkdir "$scratch/tenants" "$scratch/found"
for i in {1..30}; do
    expect 0 init "sqlite:$scratch/tenants/t$i.db"
    expect 0 enqueue "sqlite:$scratch/tenants/t$i.db" --topic t --payload x
done
sqlite3 "$scratch/admin.db" "CREATE TABLE tenants (slug TEXT, active INT);
    INSERT INTO tenants VALUES ('anna', 1), ('b/e r?t', 1), ('carl', 0);"
mkdir "$scratch/found/b"
configure <<END
[daemon]
listen = "127.0.0.1:0"
[metrics]
stores_max = 10
refresh = "100ms"
stores_per_second = 1000
[[stores]]
url = "sqlite:$scratch/tenants/*.db"
every = "1s"
[[stores]]
discover = { url = "sqlite:$scratch/admin.db", query = "SELECT slug FROM tenants WHERE active = 1", name = "tenant-{slug}", store = "sqlite:$scratch/found/{slug}.db" }
every = "1s"
migrate = true
[[handlers]]
on = "t"
command = ["sh", "-c", "echo \$POSTHORN_STORE >>$scratch/handled"]
END
start
touch "$scratch/handled"
until_true eval '(($(wc -l <"$scratch/handled") == 30))'
[[ $(sort -u "$scratch/handled" | wc -l) == 30 ]] || fail "each store had one"
for name in anna 'b/e%20r%3Ft'; do
    until_true test -e "$scratch/found/$(printf '%b' "${name//%/\\x}").db"
    expect 0 enqueue "sqlite:$scratch/found/$name.db" --topic t --payload x
done
until_true grep -qs '^tenant-anna$' "$scratch/handled"
until_true grep -qs '^tenant-b/e r?t$' "$scratch/handled"
[[ ! -e $scratch/found/carl.db ]] || fail "carl is not active"
log_has 'tables were brought up to date store=tenant-anna' || fail "that tables were made is told"

# However many there are, metrics are bounded, and whole.
until_true metric_is 'posthorn_stores 32'
until_true metric_is 'posthorn_store_handled_total\{store="other"\} 22'
[[ $(grep -c '^posthorn_store_failing' <<<"$body") == 11 ]] || fail "ten stores, and the others together"
python3 "$here/exposition.py" <<<"$body" >/dev/null || fail "the metrics are wrong"

# New ones are found by themselves; one that leaves is not served any more.
expect 0 init "sqlite:$scratch/tenants/new.db"
new=$("$posthorn" enqueue "sqlite:$scratch/tenants/new.db" --topic t --payload x)
until_true eval '[[ $(state_of "$new" "sqlite:$scratch/tenants/new.db") == done ]]'
sqlite3 "$scratch/admin.db" "UPDATE tenants SET active = 1 - active WHERE slug IN ('anna', 'carl')"
until_true metric_is 'posthorn_stores 33'
until_true test -e "$scratch/found/carl.db"
until_true log_has 'store=tenant-carl'
# A query that fails changes nothing.
mv "$scratch/admin.db" "$scratch/away.db"
until_true log_has 'cannot look for stores; those known so far stay key=stores[1]'
carl=$("$posthorn" enqueue "sqlite:$scratch/found/carl.db" --topic t --payload x)
until_true eval '[[ $(state_of "$carl" "sqlite:$scratch/found/carl.db") == done ]]'
mv "$scratch/away.db" "$scratch/admin.db"
stop
[[ ! -e $scratch/away.db ]] || fail "a database that is asked is never created"

# A column that the query has not is told where the query is.
sed -i 's/{slug}.db/{slag}.db/' "$config"
expect 1 serve --config "$config" --check --connect
out_has "stores[1]: the query has no column 'slag'; it has slug"
