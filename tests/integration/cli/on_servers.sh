# For tests that also run on the servers: a PostgreSQL and a MariaDB database of their own, called
# $name on both servers, gone with it. To be sourced after library.sh.
: "${POSTHORN_TEST_POSTGRESQL:?is not set: run ./dev servers, and then this with what it prints}"
: "${POSTHORN_TEST_MARIADB:?is not set: run ./dev servers, and then this with what it prints}"
name=cli_$$_$RANDOM
place=${POSTHORN_TEST_MARIADB##*@}
place=${place%%/*}
on_postgres() { psql -X -q "$POSTHORN_TEST_POSTGRESQL" -c "$1"; }
on_mariadb() { mariadb --no-defaults -h "${place%:*}" -P "${place#*:}" -u root -e "$1"; }
cleanup() {
    on_postgres "DROP DATABASE IF EXISTS $name WITH (FORCE)" || true
    on_mariadb "DROP DATABASE IF EXISTS $name" || true
    rm -rf "$scratch"
}
trap 'cleanup 2>/dev/null' EXIT
on_postgres "CREATE DATABASE $name"
on_mariadb "CREATE DATABASE $name"
