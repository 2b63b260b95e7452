#!/usr/bin/env bash
# Following messages: what comes and what changes is shown once, in order, until somebody ends it.
# Proves: OPS-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

# begin_tail ARGUMENTS…: follows in the background, and has begun.
begin_tail() {
    "$posthorn" tail "$url" "$@" >"$scratch/followed" 2>"$scratch/said" &
    pid=$!
}
begun() { until_true grep -q following "$scratch/said"; }
until_true() {
    local tries=0
    until "$@"; do
        ((++tries < 400)) || { out=$(<"$scratch/followed") && fail "it never became true: $*"; }
        sleep 0.05
    done
}
shows() { until_true grep -qE -- "$1" "$scratch/followed"; }
# end_tail SIGNAL: it ends at once, and successfully.
end_tail() {
    kill -"$1" "$pid"
    status=0
    wait "$pid" || status=$?
    out=$(<"$scratch/followed") command='tail in the background'
    ((status == 0)) || fail "the exit code should be 0"
}

enqueue --topic old --payload x --delay 1h
old=$id
enqueue --topic lost --payload x
lost=$id
expect 0 work "$url" --until-empty --on lost -- sh -c 'exit 65'
expect 0 enqueue "$url" --topic crowd --payload x --count 1500 --delay 1h

# From now on: nothing of what is there, but what becomes of it, however old it is.
begin_tail
begun
enqueue --topic mail.welcome --payload top-secret --key anna
mail=$id
shows "ready      $mail  mail.welcome anna"
expect 0 work "$url" --until-empty --backoff 1h --on 'mail.*' -- sh -c 'echo closed >&2; exit 1'
shows "retrying   $mail  .*failed: exited with 1: closed; again in "
expect 0 cancel "$url" "$old"
shows "cancelled  $old  old"
expect 0 dead redrive "$url" "$lost"
shows "ready      $lost  lost"
expect 0 work "$url" --until-empty --on lost -- sh -c 'echo again >&2; exit 65'
shows "dead       $lost  lost  exited with 65: again"
expect 0 dead redrive "$url" "$lost"
expect 0 work "$url" --until-empty --on lost -- true
shows "done       $lost  lost"
end_tail INT
out_lacks crowd
out_lacks top-secret
[[ $(grep -cE "(ready|retrying) +$mail" "$scratch/followed") == 2 ]] || fail "each change is shown once"

# Everything, filtered, and for programs.
begin_tail --all --json --payload --topic 'mail.*'
shows "\"id\":\"$mail\".*\"payload\":\"top-secret\"}\$"
end_tail TERM
[[ $(wc -l <"$scratch/followed") == 1 ]] || fail "one message is one line"
begin_tail --all --state cancelled
shows "cancelled  $old"
end_tail INT
out_lacks "$mail"
begin_tail --all
shows "$mail"
end_tail INT
[[ $(wc -l <"$scratch/followed") == 1503 ]] || fail "all messages are more than a page"

# A reader who leaves ends it, too.
set +o pipefail
timeout 20 "$posthorn" tail "$url" --all 2>/dev/null | head -n 1 >"$scratch/followed"
status=${PIPESTATUS[0]}
set -o pipefail
((status == 0)) || fail "tail should end when nobody reads"

expect 2 tail "$url" --all --from-now
expect 2 tail "$url" --state sleeping
expect 1 tail "sqlite:$scratch/none.db"
