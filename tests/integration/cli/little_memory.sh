#!/usr/bin/env bash
# A process that may take little memory says so and ends with an exit code: it neither breaks down nor
# stands still, wherever its memory ends. What it held comes back.
# Proves: F24, OPS-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
head -c 900000 /dev/zero | tr '\0' x >"$scratch/large"
expect 0 enqueue "$url" --topic large --count 20 - <"$scratch/large"
enqueue --topic small --payload x --count 20

# within KIB ARGUMENTS…: runs the program with so much room for all of it.
within() {
    command="posthorn ${*:2} (with $1 KiB)" status=0
    (ulimit -v "$1" && exec timeout 60 "$posthorn" "${@:2}") >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    out=$(head -c 5000 "$scratch/out" | tr -d '\0') err=$(tr -d '\0' <"$scratch/err")
    case $status in
    0 | 127) ;; # 127: it was not even loaded
    1) [[ $err == *'posthorn: '* || $out == *'problem '*memory* ]] || fail "it failed without a word" ;;
    *) fail "it should end with an exit code of its own" ;;
    esac
}

for ((kib = 44000; kib <= 140000; kib += 6000)); do
    within $kib messages "$url" --limit 1000
    within $kib doctor "$url"
    within $kib work "$url" --on small --until-empty --limit 1 -- true
    within $kib work "$url" --on large --until-empty --limit 1 -- cat
done
# With enough of it everything is there: nothing was lost on the way.
run work "$url" --on small --on large --until-empty -- true
expect 0 stats "$url" --json
(($(json_value 'done') + $(json_value claimed) + $(json_value ready) + $(json_value dead) == 40)) || fail "all of them are there"
