#!/usr/bin/env bash
# The tool that turns .sql files into a header: fragments, parameter numbers, quoted colons, refusals.
set -euo pipefail
tool=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
    printf 'failed: %s\n' "$1" >&2
    cat out.hpp >&2 || true
    exit 1
}
has() { grep -qF -- "$1" out.hpp || fail "the header should contain: $1"; }
lacks() { ! grep -qF -- "$1" out.hpp || fail "the header should not contain: $1"; }

cat >statements.sql <<'SQL'
-- A comment at the top belongs to no statement.

-- fragment: mine
owner = :owner AND note <> 'at 12:30'

-- name: find
-- A comment inside a statement is left out.
SELECT a FROM {p}t WHERE id = :id AND {{mine}} AND (:id > 0 OR :limit_1 = 1);

-- name: no_parameters
SELECT ':quoted', 'it''s :quoted too' FROM {p}t
SQL
printf 'CREATE TABLE {p}t (a);\n' >0001_first.sql
printf 'ALTER TABLE {p}t ADD b;\n' >0012_second.sql

"$tool" out.hpp some::space colon statements.sql --migrations 0001_first.sql 0012_second.sql
has 'namespace some::space {'
has 'struct find {'
has 'enum parameter : int { id = 1, owner = 2, limit_1 = 3 };'
has "SELECT a FROM {p}t WHERE id = :id AND owner = :owner AND note <> 'at 12:30' AND (:id > 0 OR :limit_1 = 1))sql"
has 'struct no_parameters {'
has 'enum parameter : int {};'
has 'named_statement text{0, "find"'
has 'named_statement text{1, "no_parameters"'
has 'std::array<posthorn::contract::named_statement, 2> all{'
has 'migration{1, "0001_first"'
has 'migration{12, "0012_second"'
lacks 'A comment'
lacks '{{'
lacks 'places'

# A repeated parameter is one number, or a place of its own that says which parameter it stands for.
"$tool" out.hpp some::space dollar statements.sql
has "SELECT a FROM {p}t WHERE id = \$1 AND owner = \$2 AND note <> 'at 12:30' AND (\$1 > 0 OR \$3 = 1))sql"
"$tool" out.hpp some::space question statements.sql
has "SELECT a FROM {p}t WHERE id = ? AND owner = ? AND note <> 'at 12:30' AND (? > 0 OR ? = 1))sql"
has 'places{1, 2, 1, 3};'
has "SELECT ':quoted'"
if "$tool" out.hpp some::space percent statements.sql 2>errors; then fail 'an unknown style is accepted'; fi

printf -- '-- name: broken\nSELECT {{nothing}}\n' >broken.sql
if "$tool" out.hpp some::space colon broken.sql 2>errors; then fail 'an unknown fragment is accepted'; fi
grep -q 'broken: no fragment nothing' errors || fail 'the error does not name statement and fragment'

if "$tool" out.hpp some::space colon missing.sql 2>errors; then fail 'a missing file is accepted'; fi
grep -q 'missing.sql' errors || fail 'the error does not name the file'

if "$tool" 2>errors; then fail 'no arguments are accepted'; fi
grep -q '^embed_sql: usage' errors || fail 'no usage line'
