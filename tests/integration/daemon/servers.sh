#!/usr/bin/env bash
# The daemon on PostgreSQL and MariaDB: stores that a query finds there, and a message enqueued by
# psql as the guide says.
# Proves: OPS-03, OUT-20
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
source "$here/../cli/on_servers.sh"
trap 'cleanup 2>/dev/null; end_all' EXIT
postgres=${POSTHORN_TEST_POSTGRESQL%/*}/$name
maria=mariadb://root@$place/$name
touch "$scratch/handled"
psql -X -q "$postgres" -c "CREATE TABLE tenants (slug text, active boolean);
    INSERT INTO tenants VALUES ('anna', true), ('bert', true), ('carl', false)"
on_mariadb "CREATE TABLE $name.tenants (prefix varchar(20), id int);
    INSERT INTO $name.tenants VALUES ('one_', 1), ('two_', 2)"
configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
name = "main"
url = "$postgres"
migrate = true
[[stores]]
migrate = true
discover = { url = "$postgres", query = "SELECT slug FROM tenants WHERE active ORDER BY 1", name = "pg-{slug}", store = "$postgres?schema=tenant_{slug}" }
[[stores]]
migrate = true
discover = { url = "$maria", query = "SELECT prefix, id FROM tenants", name = "maria-{id}", store = "$maria?prefix={prefix}" }
[[handlers]]
on = ["t", "orders.*"]
command = ["sh", "-c", "echo \"\$POSTHORN_STORE \$(cat)\" >>$scratch/handled"]
END
start
until_true metric_is 'posthorn_stores 5'
for each in "$postgres?schema=tenant_anna" "$postgres?schema=tenant_bert" "$maria?prefix=one_" "$maria?prefix=two_"; do
    until_true eval '"$posthorn" enqueue "$each" --topic t --payload x >/dev/null 2>&1'
done
for each in pg-anna pg-bert maria-1 maria-2; do
    until_true grep -q "^$each x\$" "$scratch/handled"
done
# The statement of the guide.
statement=$(awk '$0 == "```sql" { inside = 1; next } /^```/ { inside = 0 } inside' \
    "$here/../../../docs/guides/from-any-language.md")
[[ $statement == 'SELECT posthorn.enqueue('* ]] || fail "the guide has a statement for psql"
psql -X -q -v ON_ERROR_STOP=1 "$postgres" -c "$statement" >/dev/null
until_true grep -q '^main {"order": 7}$' "$scratch/handled"
get /readyz
[[ $code == 200 && $body == *'"stores":5,"failing":0'* ]] || fail "all of them answer: $body"
stop
# Whatever a query tries to change, it cannot.
sed -i 's/SELECT slug FROM tenants WHERE active ORDER BY 1/DELETE FROM tenants RETURNING slug/' "$config"
expect 1 serve --config "$config" --check --connect
out_has 'FAILED     stores[1]: the query failed'
[[ $(psql -X -At "$postgres" -c 'SELECT count(*) FROM tenants') == 3 ]] || fail "nothing was deleted"
