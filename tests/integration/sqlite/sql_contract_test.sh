#!/usr/bin/env bash
# Another language's view of a store: the sqlite3 program and nothing of Posthorn but its tables.
# Proves: OUT-20, OUT-01, I1
set -euo pipefail
migration=$1 # a program that prints the SQL of the tables
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
db=$folder/store.db
checks=0

fail() {
    printf 'failed: %s\n' "$1" >&2
    exit 1
}
sql() { sqlite3 -bail "$db" "$@"; }

# is <expected> <query>
is() {
    local got
    got=$(sql "$2")
    [[ $got == "$1" ]] || fail "$2: expected '$1', got '$got'"
    checks=$((checks + 1))
}

# refused <part of the message> <columns> <values>
refused() {
    local said before
    before=$(sql 'SELECT count(*) FROM posthorn_message')
    if said=$(sql "INSERT INTO posthorn_enqueue ($2) VALUES ($3)" 2>&1); then
        fail "accepted: ($2) ($3)"
    fi
    [[ $said == *"posthorn: $1"* ]] || fail "($2) ($3): expected 'posthorn: $1', got '$said'"
    is "$before" 'SELECT count(*) FROM posthorn_message'
}

"$migration" | sqlite3 -bail "$db" >"$folder/journal"
grep -qx wal "$folder/journal" || fail 'the journal mode is not wal'
sql 'CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT)'

# A message exists exactly when its transaction commits.
sql "BEGIN IMMEDIATE;
     INSERT INTO orders (customer) VALUES ('ada');
     INSERT INTO posthorn_enqueue (topic, payload) VALUES ('order.placed', '{\"order_id\": 1}');
     COMMIT;"
sql "BEGIN IMMEDIATE;
     INSERT INTO orders (customer) VALUES ('bob');
     INSERT INTO posthorn_enqueue (topic, payload) VALUES ('order.placed', '{\"order_id\": 2}');
     ROLLBACK;"
is 1 'SELECT count(*) FROM orders'
is 1 'SELECT count(*) FROM posthorn_message'
is '1|order.placed|{"order_id": 1}|blob' \
    'SELECT plain, topic, CAST(payload AS TEXT), typeof(payload) FROM posthorn_message'
is 0 'SELECT count(*) FROM posthorn_enqueue'

# Its id is a UUIDv7 of about now.
is '7|1|16' "SELECT substr(hex(id), 13, 1), substr(hex(id), 17, 1) IN ('8', '9', 'A', 'B'), length(id)
             FROM posthorn_message"
is 1 "SELECT abs(created_at / 1000000 - strftime('%s', 'now')) < 60 FROM posthorn_message"

# Options.
sql "INSERT INTO posthorn_enqueue (topic, ordering_key, correlation_id, causation_id, headers)
     VALUES ('keyed', 'ada', 'c-1', 'c-0', '{\"tenant\": \"north\"}'), ('keyed', 'ada', NULL, NULL, NULL)"
is $'0|c-1|c-0|{"tenant": "north"}\n1|||' \
    "SELECT q.state, m.correlation_id, m.causation_id, m.headers FROM posthorn_message m
       JOIN posthorn_queue q USING (seq) WHERE topic = 'keyed' ORDER BY seq"
sql "INSERT INTO posthorn_enqueue (topic, priority, delay_ms, expires_after_ms)
     VALUES ('later', 7, 60000, 90000)"
is '7|60000000|90000000' \
    "SELECT priority, due_at - created_at, expires_at - created_at FROM posthorn_message
       JOIN posthorn_queue USING (seq) WHERE topic = 'later'"
sql "INSERT INTO posthorn_enqueue (topic, id) VALUES ('own', X'018F0000000070008000000000ABCDEF')"
is 018F0000000070008000000000ABCDEF "SELECT hex(id) FROM posthorn_message WHERE topic = 'own'"
refused 'a message with this id exists' 'topic, id' "'own', X'018F0000000070008000000000ABCDEF'"

# A known dedup key adds nothing; the same key of another topic does.
for topic in one one two; do
    sql "INSERT INTO posthorn_enqueue (topic, dedup_key) VALUES ('$topic', 'd')"
done
is $'one|1\ntwo|1' \
    "SELECT topic, count(*) FROM posthorn_message WHERE topic IN ('one', 'two') GROUP BY 1"
sql "INSERT INTO posthorn_enqueue (topic, dedup_key, dedup_window_ms) VALUES ('brief', 'd', 1)"
sql "UPDATE posthorn_dedup SET expires_at = expires_at - 1000000 WHERE topic = 'brief'"
sql "INSERT INTO posthorn_enqueue (topic, dedup_key) VALUES ('brief', 'd')"
is 2 "SELECT count(*) FROM posthorn_message WHERE topic = 'brief'"

# Bad input is refused with a reason, and nothing is written.
long="printf('%.256c', 'x')"
refused 'topic must be' payload "'x'"
refused 'topic must be' topic "''"
refused 'topic must be' topic 5
refused 'topic must be' topic "X'61'"
refused 'topic must be' topic "printf('%.501c', 'x')"
refused 'topic must not begin with inbox:' topic "'inbox:payments.paid'"
refused 'payload must be at most 1048576' 'topic, payload' "'t', zeroblob(1048577)"
refused 'ordering_key must be text of at most 255' 'topic, ordering_key' "'t', $long"
refused 'dedup_key must be text of at most 255' 'topic, dedup_key' "'t', $long"
refused 'correlation_id must be text of at most 255' 'topic, correlation_id' "'t', $long"
refused 'causation_id must be text of at most 255' 'topic, causation_id' "'t', $long"
refused 'topic, keys and ids must not contain a NUL' topic "'a' || char(0) || 'b'"
refused 'topic, keys and ids must not contain a NUL' 'topic, dedup_key' "'t', char(0)"
refused 'priority must be' 'topic, priority' "'t', 101"
refused 'priority must be' 'topic, priority' "'t', 'high'"
refused 'delay_ms must be' 'topic, delay_ms' "'t', 1.5"
refused 'expires_after_ms must be' 'topic, expires_after_ms' "'t', 0"
refused 'expires_after_ms must be' 'topic, delay_ms, expires_after_ms' "'t', 10, 10"
refused 'dedup_window_ms must be' 'topic, dedup_key, dedup_window_ms' "'t', 'd', 0"
refused 'headers must be a JSON object' 'topic, headers' "'t', '[]'"
refused 'headers must be a JSON object' 'topic, headers' "'t', '{'"
refused 'headers must be strings' 'topic, headers' "'t', '{\"a\": 1}'"
refused 'headers must be strings' 'topic, headers' "'t', '{\"\": \"x\"}'"
refused 'headers must be strings' 'topic, headers' "'t', '{\"posthorn-msg-id\": \"x\"}'"
refused 'headers must be strings' 'topic, headers' "'t', '{\"a\": \"line\\nbreak\"}'"
refused 'headers must be at most 65536' 'topic, headers' \
    "'t', '{\"a\": \"' || printf('%.65536c', 'x') || '\"}'"
refused 'id must be' 'topic, id' "'t', 'text'"
refused 'id must be' 'topic, id' "'t', X'00'"

# At the edge it is taken.
sql "INSERT INTO posthorn_enqueue (topic, payload, ordering_key, priority, headers) VALUES
     (printf('%.255c', 'x'), zeroblob(1048576), printf('%.255c', 'k'), -100, '{}')"

# A bad row takes its whole statement with it, and the transaction can go on.
sqlite3 "$db" >"$folder/output" 2>&1 <<'SQL' || true
BEGIN IMMEDIATE;
INSERT INTO posthorn_enqueue (topic) VALUES ('batch'), ('batch'), ('');
INSERT INTO posthorn_enqueue (topic) VALUES ('after');
COMMIT;
SQL
grep -q 'posthorn: topic must be' "$folder/output" || fail 'no reason for the bad row'
is 'after' "SELECT topic FROM posthorn_message WHERE topic IN ('batch', 'after')"

# The view has no columns for what is Posthorn's own, and what it shows cannot be changed.
for column in state fence owner attempts seq; do
    if sql "INSERT INTO posthorn_enqueue (topic, $column) VALUES ('t', 1)" 2>/dev/null; then
        fail "the column $column can be set"
    fi
done
if sql 'UPDATE posthorn_enqueue SET topic = 1' 2>/dev/null; then fail 'the view can be updated'; fi
if sql 'DELETE FROM posthorn_enqueue' 2>/dev/null; then fail 'the view can be deleted from'; fi

printf 'sql contract: %d checks\n' "$checks"
