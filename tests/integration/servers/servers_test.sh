#!/usr/bin/env bash
# The private servers: they answer, survive a crash with data and port, and leave nothing behind.
set -euo pipefail
servers=$1
folder=$(mktemp -d)
trap '"$servers" stop "$folder/run"; rm -rf "$folder"' EXIT
checks=0

fail() {
    printf 'failed: %s\n' "$1" >&2
    exit 1
}
# is <expected> <got> <what>
is() {
    [[ $2 == "$1" ]] || fail "$3: expected '$1', got '$2'"
    checks=$((checks + 1))
}
postgres() { psql -X -q -At "$POSTHORN_TEST_POSTGRESQL" -c "$1"; }
mariadb() {
    command mariadb --no-defaults -N -h 127.0.0.1 -P "$POSTHORN_TEST_MARIADB_PORT" -u root -e "$1"
}
read_env() {
    unset "${!POSTHORN_TEST_@}"
    source <("$servers" env "$folder/run")
}

"$servers" start "$folder/run" postgres mariadb
read_env
is 127.0.0.1 "$(postgres 'SHOW listen_addresses')" 'PostgreSQL listens on'
is 127.0.0.1 "$(mariadb 'SELECT @@bind_address')" 'MariaDB listens on'
is 200/200 "$(postgres 'SHOW max_connections')/$(mariadb 'SELECT @@max_connections')" connections
[[ -S $POSTHORN_TEST_POSTGRESQL_SOCKET && -S $POSTHORN_TEST_MARIADB_SOCKET ]] || fail 'no sockets'
homes=$(cat "$folder/run/"*.home)

# A second start would be a second server on the same data.
if "$servers" postgres start "$folder/run" 2>/dev/null; then fail 'PostgreSQL started twice'; fi
is 1 "$(postgres 'SELECT 1')" 'PostgreSQL after a second start'

# A crash: what was committed is there afterwards, on the same port.
postgres 'CREATE TABLE kept (i int); INSERT INTO kept VALUES (7)'
mariadb 'CREATE DATABASE kept; CREATE TABLE kept.kept (i int); INSERT INTO kept.kept VALUES (7)'
before=$POSTHORN_TEST_POSTGRESQL/$POSTHORN_TEST_MARIADB
"$servers" postgres kill "$folder/run"
"$servers" mariadb kill "$folder/run"
is '' "$("$servers" env "$folder/run")" 'the environment of dead servers'
if postgres 'SELECT 1' 2>/dev/null; then fail 'PostgreSQL survived'; fi
if mariadb 'SELECT 1' 2>/dev/null; then fail 'MariaDB survived'; fi
"$servers" postgres start "$folder/run" -c fsync=on
"$servers" mariadb start "$folder/run" --max-connections=9
read_env
is "$before" "$POSTHORN_TEST_POSTGRESQL/$POSTHORN_TEST_MARIADB" 'the places after a crash'
is 7/7 "$(postgres 'SELECT i FROM kept')/$(mariadb 'SELECT i FROM kept.kept')" 'the data'
is on "$(postgres 'SHOW fsync')" 'an option of our own for PostgreSQL'
is 10 "$(mariadb 'SELECT @@max_connections')" 'an option of our own for MariaDB (10 is its least)'

# Nothing stays behind.
pids=($POSTHORN_TEST_POSTGRESQL_PID $POSTHORN_TEST_MARIADB_PID)
"$servers" stop "$folder/run"
for home in $homes; do
    [[ ! -e $home ]] || fail "$home is still there"
done
for pid in "${pids[@]}"; do
    [[ ! -s /proc/$pid/cmdline || -z $(tr -d '\0' <"/proc/$pid/cmdline") ]] || fail "$pid still runs"
done
"$servers" stop "$folder/run" # once more does no harm

# Brokers: what was stored survives a crash, and what belongs to a server ends with it.
"$servers" start "$folder/run" rabbitmq nats redis
read_env
family=$(pgrep -P "$POSTHORN_TEST_RABBITMQ_PID" | wc -l)
((family > 0)) || fail 'RabbitMQ has no children to look after'
pids=($POSTHORN_TEST_RABBITMQ_PID $(pgrep -P "$POSTHORN_TEST_RABBITMQ_PID") $POSTHORN_TEST_NATS_PID)
is '' "$("$POSTHORN_TEST_RABBITMQ_SOCKET" -q list_queues)" 'the queues of a new RabbitMQ'
redis-cli -u "$POSTHORN_TEST_REDIS" set kept 7 >/dev/null
sleep 1.1 # it syncs every second
before=$POSTHORN_TEST_REDIS
"$servers" redis kill "$folder/run"
"$servers" redis start "$folder/run" --maxclients 17
read_env
is "$before" "$POSTHORN_TEST_REDIS" 'the place of Redis after a crash'
is 7 "$(redis-cli -u "$POSTHORN_TEST_REDIS" get kept)" 'the data of Redis'
is 17 "$(redis-cli -u "$POSTHORN_TEST_REDIS" config get maxclients | tail -n 1)" 'an option for Redis'
"$servers" stop "$folder/run"
for pid in "${pids[@]}" "$POSTHORN_TEST_REDIS_PID"; do
    [[ ! -s /proc/$pid/cmdline || -z $(tr -d '\0' <"/proc/$pid/cmdline") ]] || fail "$pid still runs"
done

printf 'private servers: %d checks\n' "$checks"
