#!/usr/bin/env bash
# What somebody at a terminal sees: a status that is redrawn, and never drawn over what commands say.
# Proves: OPS-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

# at_terminal ARGUMENTS…: runs the program on a terminal of 80 columns; what it drew is in $out.
at_terminal() {
    command="posthorn $* (on a terminal)" status=0
    TERM=xterm script -qec "stty cols 80 rows 24; $(printf '%q ' "$posthorn" "$@")" /dev/null \
        >"$scratch/out" </dev/null || status=$?
    out=$(tr -d '\r' <"$scratch/out")
    ((status == 0)) || fail "the exit code should be 0"
}
# still_there: what is left on the screen when every wiping has been carried out.
still_there() {
    awk '{ while (match($0, /\033\[[0-9]+A\033?\[?J?/)) {
               rows = substr($0, RSTART + 2) + 0
               n -= rows
               $0 = substr($0, RSTART + RLENGTH)
           }
           sub(/^\033\[J/, "")
           screen[n++] = $0 }
         END { for (i = 0; i < n; i++) print screen[i] }' <<<"$out"
}

expect 0 enqueue "$url" --topic t --payload x --count 4
at_terminal work "$url" --until-empty --on t -- \
    sh -c 'echo "result $POSTHORN_ID"; printf "half a line"; echo "trouble $POSTHORN_ID" >&2; sleep 0.6'
out_matches '/s  backlog [0-9]+, oldest [0-9]+s  running 1  done [0-9]'
out=$(still_there)
[[ $(grep -c '^result ' <<<"$out") == 4 ]] || fail "all four results should stay on the screen"
[[ $(grep -c 'trouble ' <<<"$out") == 4 ]] || fail "all four errors should stay on the screen"
[[ $(grep -c '^half a line$' <<<"$out") == 4 ]] || fail "nobody should write on another's line"
out_lacks backlog
out_has 'ended    empty: 4 done'

at_terminal demo "$url" --seconds 2
out_matches 'TOPIC +ENQUEUED +DONE +TRIED AGAIN +DEAD'
out_matches 'ready [0-9]+  delayed [0-9]+  retrying [0-9]+'
out=$(still_there)
out_lacks 'delayed'
out_has 'done       order.shipped of order-1'
