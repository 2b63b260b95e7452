#!/usr/bin/env bash
# Another language's view of a store: psql and nothing of Posthorn but its schema.
# Proves: OUT-20, OUT-01, I1
set -euo pipefail
migration=$1 # a program that prints the SQL of the schema
: "${POSTHORN_TEST_POSTGRESQL:?is not set: run ./dev servers, and then this with what it prints}"
server=${POSTHORN_TEST_POSTGRESQL%/*}
name=contract_$$_$RANDOM # of the database; roles begin with it, because they belong to the server
checks=0

fail() {
    printf 'failed: %s\n' "$1" >&2
    exit 1
}
run() { psql -X -q -At -v ON_ERROR_STOP=1 "$@"; }
sql() { run "$server/$name" -c "$1"; }
# sql_as <role> <statement>
sql_as() { run "postgresql://$1@${server#*@}/$name" -c "$2"; }

cleanup() {
    run "$POSTHORN_TEST_POSTGRESQL" -c "DROP DATABASE IF EXISTS $name WITH (FORCE)" \
        -c "DROP ROLE IF EXISTS ${name}_app, ${name}_stranger"
}
trap 'cleanup 2>/dev/null' EXIT

# is <expected> <query>
is() {
    local got
    got=$(sql "$2")
    [[ $got == "$1" ]] || fail "$2: expected '$1', got '$got'"
    checks=$((checks + 1))
}

# refused <part of the message> <arguments>
refused() {
    local said before
    before=$(sql 'SELECT count(*) FROM posthorn.message')
    if said=$(sql "SELECT posthorn.enqueue($2)" 2>&1); then fail "accepted: $2"; fi
    [[ $said == *"ERROR:  posthorn: "*"$1"* ]] || fail "$2: expected 'posthorn: …$1', got '$said'"
    is "$before" 'SELECT count(*) FROM posthorn.message'
}

# denied <role> <statement>
denied() {
    local said
    if said=$(sql_as "$1" "$2" 2>&1); then fail "$1 may: $2"; fi
    [[ $said == *'permission denied'* ]] || fail "$2: expected a denial, got '$said'"
    checks=$((checks + 1))
}

run "$POSTHORN_TEST_POSTGRESQL" -c "CREATE DATABASE $name"
"$migration" | run "$server/$name" >/dev/null
sql 'CREATE TABLE orders (id serial PRIMARY KEY, customer text)'

# A message exists exactly when its transaction commits.
sql "BEGIN;
     INSERT INTO orders (customer) VALUES ('ada');
     SELECT posthorn.enqueue(topic => 'order.placed', payload => '{\"order_id\": 1}');
     COMMIT;" >/dev/null
sql "BEGIN;
     INSERT INTO orders (customer) VALUES ('bob');
     SELECT posthorn.enqueue(topic => 'order.placed', payload => '{\"order_id\": 2}');
     ROLLBACK;" >/dev/null
is 1 'SELECT count(*) FROM orders'
is 'order.placed|{"order_id": 1}' \
    "SELECT topic, convert_from(payload, 'UTF8') FROM posthorn.message"

# Its id is a UUIDv7, and what the function returns.
is t "SELECT id::text ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\$'
      FROM posthorn.message"
id=$(sql "SELECT posthorn.enqueue('returned', payload => '\\x00ff'::bytea)")
is "$id|\\x00ff" "SELECT id, payload FROM posthorn.message WHERE topic = 'returned'"

# A payload is text, JSON or bytes, and what has no type yet is text, whatever it looks like.
# payload_of <arguments>
payload_of() {
    local id
    id=$(sql "SELECT posthorn.enqueue($1)") || fail "refused: $1"
    sql "SELECT convert_from(payload, 'UTF8') FROM posthorn.message WHERE id = '$id'"
}
# stores <payload> <arguments>
stores() {
    local got
    got=$(payload_of "$2")
    [[ $got == "$1" ]] || fail "$2: expected '$1', got '$got'"
    checks=$((checks + 1))
}
stores '{"a":1}' "'t', '{\"a\":1}'"
stores '{"a":1}' "'t', payload => '{\"a\":1}'"
stores '{"a":1}' "'t', '{\"a\":1}'::json"
stores '{"a": 1}' "'t', '{\"a\":1}'::jsonb"
stores '{"a": 1}' "'t', jsonb_build_object('a', 1), ordering_key => 'k'"
stores '{"a":1}' "'t', '{\"a\":1}'::varchar"
stores '{"a":1}' "'t', '{\"a\":1}'::bytea"
stores '\x7b' "'t', '\x7b'"
stores '{' "'t', '\x7b'::bytea"
stores '' "'t', NULL"
stores '' "'t', NULL::jsonb"
stores 'grüße' "'t', 'grüße'"
# As drivers bind: parameters without a type, as text, and as bytes.
for types in 'unknown, unknown' 'text, text' 'varchar, unknown' 'text, bytea' 'text, jsonb'; do
    sql "PREPARE p ($types) AS SELECT posthorn.enqueue(\$1, \$2); EXECUTE p ('bound', '{\"b\": 2}')" \
        >/dev/null || fail "not taken: $types"
done
sql "PREPARE p AS SELECT posthorn.enqueue(\$1, \$2, headers => \$3, ordering_key => \$4);
     EXECUTE p ('bound', '{\"b\": 2}', '{\"h\": \"x\"}', 'k')" >/dev/null
is '6|1' "SELECT count(*), count(DISTINCT convert_from(payload, 'UTF8')) FROM posthorn.message
          WHERE topic = 'bound'"

# Options.
sql "SELECT posthorn.enqueue(topic => 'all', payload => 'text', ordering_key => 'ada', priority => 7,
         delay_ms => 60000, expires_after_ms => 90000, correlation_id => 'c-1',
         causation_id => 'c-0', headers => '{\"tenant\": \"north\"}',
         id => '018f0000-0000-7000-8000-000000abcdef')" >/dev/null
is '018f0000-0000-7000-8000-000000abcdef|7|60000000|90000000|ada|c-1|c-0|text' \
    "SELECT id, priority, due_at - created_at, expires_at - created_at, ordering_key,
            correlation_id, causation_id, convert_from(payload, 'UTF8')
     FROM posthorn.message WHERE topic = 'all'"
refused 'exists already' "'own', id => '018f0000-0000-7000-8000-000000abcdef'"

# A known dedup key adds nothing and gives the first id; the same key of another topic does add.
first=$(sql "SELECT posthorn.enqueue('one', dedup_key => 'd')")
again=$(sql "SELECT posthorn.enqueue('one', dedup_key => 'd')")
other=$(sql "SELECT posthorn.enqueue('two', dedup_key => 'd')")
[[ $again == "$first" && $other != "$first" ]] || fail "dedup: $first, $again, $other"
is $'one|1\ntwo|1' \
    "SELECT topic, count(*) FROM posthorn.message WHERE topic IN ('one', 'two') GROUP BY 1 ORDER BY 1"

# One statement can add many.
sql "SELECT posthorn.enqueue('many', i::text) FROM generate_series(1, 500) i" >/dev/null
is '500|1|500' "SELECT count(*), min(convert_from(payload, 'UTF8')::integer),
                       max(convert_from(payload, 'UTF8')::integer)
                FROM posthorn.message WHERE topic = 'many'"

# Bad input is refused with a reason, and nothing is written.
long="repeat('x', 256)"
refused topic "''"
refused topic NULL
refused 'topic must be' "repeat('x', 501)"
for payload in "'x'" "'x'::bytea" "'{}'::json" "'{}'::jsonb"; do
    refused 'topic must not begin with inbox:' "'inbox:payments.paid', payload => $payload"
done
refused payload "'t', payload => repeat('x', 1048577)"
for argument in ordering_key dedup_key correlation_id causation_id; do
    refused "$argument" "'t', $argument => $long"
done
refused priority "'t', priority => 101"
refused expires_after_ms "'t', expires_after_ms => 0"
refused expires_after_ms "'t', delay_ms => 10, expires_after_ms => 10"
refused dedup_window_ms "'t', dedup_key => 'd', dedup_window_ms => 0"
refused headers "'t', headers => '[]'"
refused headers "'t', headers => '{\"a\": 1}'"
refused headers "'t', headers => '{\"posthorn-msg-id\": \"x\"}'"
refused headers "'t', headers => '{\"a\": \"line\\nbreak\"}'"
refused id "'t', id => '00000000-0000-0000-0000-000000000000'"

# A refusal ends the transaction, as every error does here; a savepoint keeps it.
run "$server/$name" -v ON_ERROR_STOP=0 >/dev/null 2>&1 <<'SQL' || true
BEGIN;
SELECT posthorn.enqueue('before');
SELECT posthorn.enqueue('');
SELECT posthorn.enqueue('after');
COMMIT;
SQL
is 0 "SELECT count(*) FROM posthorn.message WHERE topic IN ('before', 'after')"
run "$server/$name" -v ON_ERROR_STOP=0 >/dev/null 2>&1 <<'SQL' || true
BEGIN;
SELECT posthorn.enqueue('before');
SAVEPOINT attempt;
SELECT posthorn.enqueue('');
ROLLBACK TO SAVEPOINT attempt;
SELECT posthorn.enqueue('after');
COMMIT;
SQL
is $'before\nafter' \
    "SELECT topic FROM posthorn.message WHERE topic IN ('before', 'after') ORDER BY seq"

# What is Posthorn's own has no argument.
for argument in state fence owner attempts seq created_at worker; do
    if sql "SELECT posthorn.enqueue('t', $argument => 1)" 2>/dev/null; then
        fail "$argument can be given"
    fi
done

# A role with the documented rights can enqueue, and nothing else.
sql "CREATE ROLE ${name}_app LOGIN; CREATE ROLE ${name}_stranger LOGIN;
     GRANT USAGE ON SCHEMA posthorn TO ${name}_app, ${name}_stranger"
run "$server/$name" <<SQL
SELECT format('GRANT EXECUTE ON FUNCTION %s TO ${name}_app', oid::regprocedure) FROM pg_proc
 WHERE proname = 'enqueue' AND pronamespace = 'posthorn'::regnamespace \gexec
SQL
id=$(sql_as "${name}_app" "SELECT posthorn.enqueue('granted', payload => 'text', dedup_key => 'd',
         ordering_key => 'k', headers => '{\"a\": \"b\"}')")
is "$id" "SELECT id FROM posthorn.message WHERE topic = 'granted'"
sql_as "${name}_app" "SELECT posthorn.enqueue('granted', payload => '\\x00'::bytea)" >/dev/null
denied "${name}_stranger" "SELECT posthorn.enqueue('t')"
denied "${name}_stranger" "SELECT posthorn.enqueue('t', payload => 'text')"
tables=$(sql "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v', 'm', 'p')
              AND relnamespace = 'posthorn'::regnamespace")
for table in $tables; do
    denied "${name}_app" "SELECT * FROM posthorn.$table"
    denied "${name}_app" "DELETE FROM posthorn.$table"
done
denied "${name}_app" "UPDATE posthorn.message SET state = 6, fence = 1, worker = 1"
denied "${name}_app" "INSERT INTO posthorn.message SELECT * FROM posthorn.message"
if sql_as "${name}_app" 'DROP TABLE posthorn.message' 2>/dev/null; then fail 'dropped'; fi
for sequence in $(sql "SELECT relname FROM pg_class WHERE relkind = 'S'
                       AND relnamespace = 'posthorn'::regnamespace"); do
    denied "${name}_app" "SELECT nextval('posthorn.$sequence')"
done
denied "${name}_app" 'CREATE TABLE posthorn.mine (i integer)'
# Objects of its own must not be taken for Posthorn's while the function runs with its owner's rights.
sql_as "${name}_app" "CREATE TEMPORARY TABLE message (i integer);
                      CREATE TEMPORARY TABLE dedup (i integer);
                      SELECT posthorn.enqueue('shadowed', dedup_key => 'd')" >/dev/null
is 1 "SELECT count(*) FROM posthorn.message WHERE topic = 'shadowed'"

printf 'sql contract: %d checks\n' "$checks"
