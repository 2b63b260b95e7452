#!/usr/bin/env bash
# Rows that are no stores cost the others nothing, and a store that moves is another one for
# everybody: handlers, senders of webhooks, jobs and retention.
# Proves: OPS-03, MDB-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
on_admin() { sqlite3 "$scratch/admin.db" "$1"; }
on_admin "CREATE TABLE tenants (slug TEXT, file TEXT, mode TEXT DEFAULT 'normal');
    INSERT INTO tenants (slug, file) VALUES ('one', 'a'), ('two', 'b')"
for each in a b c; do
    expect 0 init "sqlite:$scratch/$each.db"
done
# configuration [MORE]
configuration() {
    configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
discover = { url = "sqlite:$scratch/admin.db", query = "SELECT * FROM tenants", name = "t-{slug}", store = "sqlite:$scratch/{file}.db?synchronous={mode}" }
every = "1s"
[[handlers]]
on = ["t", "inbox:hook"]
command = ["sh", "-c", "echo \$POSTHORN_STORE \$(cat) >>$scratch/handled"]
${1:-}
END
}
touch "$scratch/handled"
# is_served FILE STORE
is_served() {
    expect 0 enqueue "sqlite:$scratch/$1.db" --topic t --payload "in $1"
    until_true state_is "$out" 'done' "sqlite:$scratch/$1.db"
    grep -q "^$2 in $1\$" "$scratch/handled" || fail "$1.db is called $2"
}
state_is() { [[ $(state_of "$1" "${3:-$url}") == "$2" ]]; }

configuration
start
is_served a t-one
is_served b t-two
# Rows without a name, without a URL, and with the name of another: told once, and nothing else.
on_admin "INSERT INTO tenants (slug, file, mode) VALUES (NULL, 'x', 'full'), ('', 'y', 'full'),
    ('bad', 'z', 'nonsense'), ('none', NULL, NULL), ('two', 'c', 'full'), ('three', 'c', 'full')"
until_true log_has 'a row is left out key=stores[0] error="row 3 has no name"'
until_true log_has 'a row is left out key=stores[0] error="row 4 has no name"'
until_true log_has "row 5 is called 't-bad' and cannot be a store: synchronous=nonsense is not known"
until_true log_has 'row 6 does not say which store'
until_true log_has "row 7 is called 't-two' like another one"
is_served c t-three
until_true metric_is 'posthorn_stores 3'
on_admin "INSERT INTO tenants (file) VALUES ('z')"
until_true log_has 'row 9 has no name'
[[ $(log_count 'row 3 has no name') == 1 ]] || fail "a row is told once"
expect 1 serve --config "$config" --check --connect
out_has 'FAILED     stores[0]: row 3 has no name'
out_has 'reached    store t-three'
# The same when the file is read again, and at the next start.
reload
log_has 'was read again' || fail "rows do not refuse a configuration"
is_served a t-one
stop
start
is_served b t-two
is_served c t-three
on_admin "DELETE FROM tenants WHERE slug IS NOT 'one' AND slug IS NOT 'two'"
until_true metric_is 'posthorn_stores 2'

# More rows than there can be stores are a mistake in the query: those known stay.
on_admin "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
    INSERT INTO tenants (slug, file) SELECT 'n' || i, 'n' FROM n"
until_true log_has 'the query failed: it gives more than 100000 rows'
metric_is 'posthorn_stores 2' || fail "those known stay"
on_admin "DELETE FROM tenants WHERE file = 'n'"
is_served a t-one

# A reading that cannot find its stores takes nothing away from the one before.
configuration "[[stores]]
discover = { url = \"sqlite:$scratch/nowhere.db\", query = \"SELECT 1\", name = \"{x}\", store = \"sqlite:{x}\" }"
reload
log_has 'the configuration stays as it was error="cannot look for stores: stores[1]: ' || fail "and says so"
is_served a t-one
# Two entries that call their stores the same: the first counts, and that is told.
configuration "[[stores]]
name = \"t-two\"
url = \"sqlite:$scratch/c.db\""
reload
until_true log_has 'two stores have the same name; one is left out store=t-two key=stores[1]'
is_served b t-two
# A database that is away when the file is read again does not cost the stores that are known.
configuration
mv "$scratch/admin.db" "$scratch/away.db"
reload
[[ $(log_count 'was read again') == 2 ]] || fail "what is as it was need not be found again"
is_served a t-one
is_served b t-two
mv "$scratch/away.db" "$scratch/admin.db"

# A store moves: messages, jobs and retention go where it is now.
configuration '[[endpoints]]
listen = "127.0.0.1:0"
path = "/hook"
source = "partner"
unsigned_allowed = true
store = "t-one"
topic = "hook"
[[schedules]]
name = "yearly"
cron = "@yearly"
topic = "t"
[retention]
every = "1s"
keep = "0s"
keep_inbox = "90d"'
reload
hooks=$(sed -n 's/.*listening for webhooks at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log" | tail -n 1)
# post ID: the answer is in $code.
post() {
    exec 5<>"/dev/tcp/127.0.0.1/$hooks" || fail "nobody listens at $hooks"
    printf 'POST /hook HTTP/1.1\r\nHost: localhost\r\nwebhook-id: %s\r\nConnection: close\r\nContent-Length: 4\r\n\r\nhook' "$1" >&5
    code=$(cat <&5)
    exec 5<&- 5>&-
    code=${code#* } code=${code%% *}
}
post first
[[ $code == 202 ]] || fail "it was taken: $code"
until_true grep -q '^t-one hook$' "$scratch/handled"
until_true log_has 'a job was created job=yearly store=t-one'
rm "$scratch"/c.db*
expect 0 init "sqlite:$scratch/c.db"
old=$("$posthorn" enqueue "sqlite:$scratch/c.db" --topic t --payload old)
on_admin "UPDATE tenants SET file = 'c' WHERE slug = 'one'"
until_true grep -q '^t-one old$' "$scratch/handled"
# arrives_there: a message that is taken now is where the store is now.
arrives_there() {
    post "now $((++posts))"
    [[ $code == 202 ]] || fail "it was taken: $code"
    expect 0 inbox list "sqlite:$scratch/c.db" --json
    [[ $out == *"now $posts"* ]]
}
posts=0
until_true arrives_there
until_true count_is ready 0 "sqlite:$scratch/c.db"
until_true eval '[[ $("$posthorn" jobs list "sqlite:$scratch/c.db" --json) == *yearly* ]]'
until_true eval '! "$posthorn" message "sqlite:$scratch/c.db" "$old" --json >/dev/null 2>&1'
# One that has left takes nothing: whoever sends comes again.
on_admin "DELETE FROM tenants WHERE slug = 'one'"
until_true metric_is 'posthorn_stores 1'
until_true eval 'post third; [[ $code == 503 ]]'
stop
