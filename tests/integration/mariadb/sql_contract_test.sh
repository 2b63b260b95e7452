#!/usr/bin/env bash
# Another language's view of a store: the mariadb program and nothing of Posthorn but its tables.
# Proves: OUT-20, OUT-01, I1
set -euo pipefail
migration=$1 # a program that prints the SQL of the tables
: "${POSTHORN_TEST_MARIADB:?is not set: run ./dev servers, and then this with what it prints}"
place=${POSTHORN_TEST_MARIADB##*@}
place=${place%%/*}
name=contract_$$_$RANDOM # of the database; users begin with it, because they belong to the server
checks=0

fail() {
    printf 'failed: %s\n' "$1" >&2
    exit 1
}
# client <user> [argument…]
client() {
    mariadb --no-defaults -N -B --default-character-set=utf8mb4 -h "${place%:*}" -P "${place#*:}" \
        -u "$1" "${@:2}"
}
sql() { client root "$name" -e "$1"; }
# sql_as <user> <statement>
sql_as() { client "$1" "$name" -e "$2"; }

cleanup() {
    client root -e "DROP DATABASE IF EXISTS $name; DROP USER IF EXISTS '${name}_app'@'%';
                    DROP USER IF EXISTS '${name}_stranger'@'%'"
}
trap cleanup EXIT

# is <expected> <query>
is() {
    local got
    got=$(sql "$2")
    [[ $got == "$1" ]] || fail "$2: expected '$1', got '$got'"
    checks=$((checks + 1))
}

# enqueued <topic> <payload> <options>: prints the id
enqueued() { sql "CALL posthorn_enqueue($1, $2, $3, @id); SELECT @id"; }

# refused <part of the message> <topic> <payload> <options>
refused() {
    local said before
    before=$(sql 'SELECT count(*) FROM posthorn_message')
    if said=$(enqueued "${@:2}" 2>&1); then fail "accepted: ${*:2}"; fi
    [[ $said == *': posthorn: '*"$1"* ]] || fail "${*:2}: expected 'posthorn: …$1', got '$said'"
    is "$before" 'SELECT count(*) FROM posthorn_message'
}

# denied <user> <statement>
denied() {
    local said
    if said=$(sql_as "$1" "$2" 2>&1); then fail "$1 may: $2"; fi
    [[ $said == *' denied '* ]] || fail "$2: expected a denial, got '$said'"
    checks=$((checks + 1))
}

client root -e "CREATE DATABASE $name"
"$migration" | client root "$name" >/dev/null
sql 'CREATE TABLE orders (id INTEGER PRIMARY KEY AUTO_INCREMENT, customer TEXT)'

# A message exists exactly when its transaction commits.
sql "START TRANSACTION;
     INSERT INTO orders (customer) VALUES ('ada');
     CALL posthorn_enqueue('order.placed', '{\"order_id\": 1}', NULL, @id);
     COMMIT;"
sql "START TRANSACTION;
     INSERT INTO orders (customer) VALUES ('bob');
     CALL posthorn_enqueue('order.placed', '{\"order_id\": 2}', NULL, @id);
     ROLLBACK;"
is 1 'SELECT count(*) FROM orders'
is $'order.placed\t{"order_id": 1}' 'SELECT topic, payload FROM posthorn_message'

# Every payload is stored byte for byte, whichever way a client writes it.
all_bytes=$(printf '%02X' {0..255})
for literal in "X'$all_bytes'" "0x$all_bytes" "_binary X'$all_bytes'" "UNHEX('$all_bytes')" \
    "CAST(X'$all_bytes' AS BINARY)"; do
    enqueued "'bytes'" "$literal" NULL >/dev/null
    is "$all_bytes" "SELECT hex(payload) FROM posthorn_message WHERE topic = 'bytes' ORDER BY seq DESC LIMIT 1"
done
printf "CALL posthorn_enqueue('raw', _binary '\\\\0\377\376\303(', NULL, @id)" | client root "$name"
printf "PREPARE s FROM 'CALL posthorn_enqueue(?, ?, NULL, @id)'; SET @t = 'raw', @p = _binary '\200\\\\0';
        EXECUTE s USING @t, @p" | client root "$name"
is $'00FFFEC328\n8000' "SELECT hex(payload) FROM posthorn_message WHERE topic = 'raw' ORDER BY seq"

# Text is UTF-8: half a surrogate pair is none, though the server takes it for a character.
refused 'topic, keys and ids must be valid UTF-8' "X'61EDA080'" "''" NULL
for name_of_text in ordering_key dedup_key correlation_id causation_id; do
    refused 'topic, keys and ids must be valid UTF-8' "'t'" "''" \
        "CONCAT('{\"$name_of_text\": \"', X'EDBFBF', '\"}')"
done
refused 'headers must be valid UTF-8' "'t'" "''" "CONCAT('{\"headers\": {\"a\": \"', X'EDA080', '\"}}')"
enqueued "'한글'" "''" "'{\"ordering_key\": \"힣 😀\"}'" >/dev/null

# Its id is a UUIDv7, and what the procedure gives back.
id=$(enqueued "'returned'" "X'00FF'" NULL)
[[ $id =~ ^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$ ]] || fail "id: $id"
hex=${id//-/}
is "${hex^^}"$'\t00FF' \
    "SELECT hex(id), hex(payload) FROM posthorn_message WHERE topic = 'returned'"

# Options.
id=$(enqueued "'all'" "'text'" "JSON_OBJECT('ordering_key', 'ada', 'priority', 7,
        'delay_ms', 60000, 'expires_after_ms', 90000, 'correlation_id', 'c-1', 'causation_id', 'c-0',
        'headers', JSON_OBJECT('tenant', 'north'), 'id', '018f0000-0000-7000-8000-000000abcdef')")
[[ $id == 018f0000-0000-7000-8000-000000abcdef ]] || fail "its own id: $id"
is $'018F0000000070008000000000ABCDEF\tada\tc-1\tc-0\ttext' \
    "SELECT hex(id), ordering_key, correlation_id, causation_id, payload FROM posthorn_message
     WHERE topic = 'all'"
refused 'exists already' "'own'" NULL "JSON_OBJECT('id', '018f0000-0000-7000-8000-000000abcdef')"

# A known dedup key adds nothing and gives the first id; the same key of another topic does add.
first=$(enqueued "'one'" NULL "JSON_OBJECT('dedup_key', 'd')")
again=$(enqueued "'one'" NULL "JSON_OBJECT('dedup_key', 'd')")
other=$(enqueued "'two'" NULL "JSON_OBJECT('dedup_key', 'd')")
[[ $again == "$first" && $other != "$first" ]] || fail "dedup: $first, $again, $other"
is $'one\t1\ntwo\t1' \
    "SELECT topic, count(*) FROM posthorn_message WHERE topic IN ('one', 'two') GROUP BY 1 ORDER BY 1"

# Bad input is refused with a reason, and nothing is written.
long="repeat('x', 256)"
refused topic "''" NULL NULL
refused topic NULL NULL NULL
refused 'topic must be' "repeat('x', 501)" NULL NULL
refused 'topic must not begin with inbox:' "'inbox:payments.paid'" NULL NULL
refused NUL "concat('a', char(0), 'b')" NULL NULL
refused payload "'t'" "repeat('x', 1048577)" NULL
for argument in ordering_key dedup_key correlation_id causation_id; do
    refused "$argument" "'t'" NULL "JSON_OBJECT('$argument', $long)"
    refused "$argument" "'t'" NULL "JSON_OBJECT('$argument', 5)"
done
for argument in priority delay_ms expires_after_ms dedup_window_ms; do
    refused "$argument" "'t'" NULL "JSON_OBJECT('dedup_key', 'd', '$argument', 1.5)"
    refused "$argument" "'t'" NULL "JSON_OBJECT('dedup_key', 'd', '$argument', '5')"
done
refused priority "'t'" NULL "JSON_OBJECT('priority', 101)"
refused expires_after_ms "'t'" NULL "JSON_OBJECT('expires_after_ms', 0)"
refused expires_after_ms "'t'" NULL "JSON_OBJECT('delay_ms', 10, 'expires_after_ms', 10)"
refused dedup_window_ms "'t'" NULL "JSON_OBJECT('dedup_key', 'd', 'dedup_window_ms', 0)"
refused headers "'t'" NULL "JSON_OBJECT('headers', JSON_ARRAY())"
refused headers "'t'" NULL "JSON_OBJECT('headers', JSON_OBJECT('a', 1))"
refused headers "'t'" NULL "'{\"headers\": {\"a\": \"first\", \"a\": \"second\"}}'"
refused headers "'t'" NULL "'{\"headers\": {\"a\": \"text\", \"a\": 1}}'"
refused headers "'t'" NULL "JSON_OBJECT('headers', JSON_OBJECT('posthorn-msg-id', 'x'))"
refused headers "'t'" NULL "JSON_OBJECT('headers', JSON_OBJECT('a', 'line\nbreak'))"
refused id "'t'" NULL "JSON_OBJECT('id', '00000000-0000-0000-0000-000000000000')"
refused id "'t'" NULL "JSON_OBJECT('id', 'no id')"
refused options "'t'" NULL "'no json'"
refused options "'t'" NULL "'[]'"

# What is Posthorn's own has no name among the options.
for argument in state fence owner attempts seq created_at worker; do
    refused "$argument" "'t'" NULL "JSON_OBJECT('$argument', 1)"
done

# A refusal leaves the transaction open, with everything that was in it.
client root "$name" --force >/dev/null 2>&1 <<'SQL' || true
START TRANSACTION;
CALL posthorn_enqueue('before', NULL, NULL, @id);
CALL posthorn_enqueue('', NULL, NULL, @id);
CALL posthorn_enqueue('after', NULL, NULL, @id);
COMMIT;
SQL
is $'before\nafter' \
    "SELECT topic FROM posthorn_message WHERE topic IN ('before', 'after') ORDER BY seq"

# A user with the documented right can enqueue, and nothing else.
sql "CREATE USER '${name}_app'@'%'; CREATE USER '${name}_stranger'@'%';
     GRANT EXECUTE ON PROCEDURE $name.posthorn_enqueue TO '${name}_app'@'%';
     CREATE TABLE theirs (i INTEGER); GRANT SELECT ON $name.theirs TO '${name}_stranger'@'%'"
call="CALL posthorn_enqueue('granted', 'text',
          JSON_OBJECT('dedup_key', 'd', 'ordering_key', 'k'), @id); SELECT @id"
id=$(sql_as "${name}_app" "$call")
hex=${id//-/}
is "${hex^^}" "SELECT hex(id) FROM posthorn_message WHERE topic = 'granted'"
sql_as "${name}_app" "START TRANSACTION; CALL posthorn_enqueue('granted', '', NULL, @id); ROLLBACK"
is 1 "SELECT count(*) FROM posthorn_message WHERE topic = 'granted'"
denied "${name}_stranger" "$call"
tables=$(sql "SELECT table_name FROM information_schema.tables
              WHERE table_schema = '$name' AND table_name LIKE 'posthorn%'")
for table in $tables; do
    denied "${name}_app" "SELECT * FROM $table"
    denied "${name}_app" "DELETE FROM $table"
done
denied "${name}_app" 'UPDATE posthorn_message SET topic = 1'
denied "${name}_app" 'INSERT INTO posthorn_message (topic) VALUES (1)'
denied "${name}_app" 'DROP PROCEDURE posthorn_enqueue'

printf 'sql contract: %d checks\n' "$checks"
