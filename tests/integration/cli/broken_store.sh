#!/usr/bin/env bash
# A store that cannot be used says why, and nothing is repaired or overwritten behind one's back.
# Proves: OPS-01, OPS-02, F22
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"

# refuses CODE TEXT VERB…: every one of these verbs fails for this reason.
refuses() {
    local verb
    for verb in "${@:3}"; do
        expect 1 "$verb" "$url" --json
        err_has "{\"error\":{\"code\":\"$1\",\"message\":"
        expect 1 "$verb" "$url"
        err_has "$2"
        out_is ''
    done
}
fresh() { rm -f "$scratch"/store.db*; }
file=$scratch/store.db

# No file, and no folder for one.
refuses not_found 'posthorn init' stats messages clean doctor
[[ ! -e $file ]] || fail "a store that is not there must not be created by looking at it"
expect 1 init "sqlite:$scratch/no/such/folder/store.db"
err_has 'there is no folder'

# Somebody's database without our tables: nothing may be created in it but by init.
sqlite3 "$file" "CREATE TABLE customer (name TEXT); INSERT INTO customer VALUES ('anna')"
refuses schema_missing 'posthorn init' stats messages clean
expect 1 doctor "$url"
out_matches 'problem +schema version: .*posthorn init'
[[ $(sqlite3 "$file" 'SELECT count(*) FROM sqlite_schema') == 1 ]] || fail "tables appeared"
expect 0 init "$url"
expect 0 enqueue "$url" --topic t --payload x
[[ $(sqlite3 "$file" 'SELECT name FROM customer') == anna ]] || fail "their table was changed"

# Tables that a newer Posthorn made.
sqlite3 "$file" "INSERT INTO posthorn_schema VALUES (99, '0099_future', 0)"
refuses schema_newer 'a newer Posthorn made them' stats messages clean init migrate
expect 1 doctor "$url"
out_has 'a newer Posthorn made them'
sqlite3 "$file" 'DELETE FROM posthorn_schema WHERE version = 99'
expect 0 stats "$url" --json
[[ $(json_value ready) == 1 ]] || fail "the message should still be there"

# Tables of our names that are not ours.
fresh
sqlite3 "$file" 'CREATE TABLE posthorn_message (id INTEGER)'
refuses schema_foreign "are not Posthorn's" stats messages clean init migrate
[[ $(sqlite3 "$file" 'SELECT count(*) FROM sqlite_schema') == 1 ]] || fail "tables appeared"
expect 0 init "$url?prefix=other_"

# Bytes that are no database.
fresh
head -c 8192 /dev/urandom >"$file"
cp "$file" "$scratch/copy"
refuses corrupt 'not an SQLite database' stats messages clean init migrate
expect 1 doctor "$url"
cmp -s "$file" "$scratch/copy" || fail "a file that is not ours was changed"

# A page of the store is damaged: the doctor sees it.
fresh
expect 0 init "$url"
expect 0 enqueue "$url" --topic t --payload x --count 2000
sqlite3 "$file" 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
pages=$(($(stat -c %s "$file") / 4096))
dd if=/dev/urandom of="$file" bs=4096 seek=$((pages - 8)) count=8 conv=notrunc status=none
expect 1 doctor "$url"
out_matches 'problem +'
