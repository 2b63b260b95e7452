#!/usr/bin/env bash
# The demo runs as it is shown: orders in their order, retries, a delay, and one dead letter.
# Proves: OPS-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"

expect 0 demo "$url" --seconds 5
err_has 'enqueued   order 1 in three steps'
err_has 'done       order.shipped of order-1'
err_has 'done       mail.reminder'
err_has "dead       invoice.send: there is no customer 'nobody'"
out_matches '[0-9]+ enqueued, [0-9]+ done, [0-9]+ tried again, 1 dead'
out_matches "invoice.send .*there is no customer 'nobody'"
out_has "$posthorn dead redrive $url --topic invoice.send"

# What it says to try next works as printed. The last two run until a signal ends them.
mapfile -t printed < <(grep -F "  $posthorn " "$scratch/out")
((${#printed[@]} == 5)) || fail "five commands to try next"
for each in "${printed[@]}"; do
    command="as printed: $each"
    : >"$scratch/tried"
    case $each in
    *' work '* | *' tail '*)
        # Of `work` a signal would also end what it has not begun: wait for what `cat` prints.
        if [[ $each == *' work '* ]]; then wanted=customer; else wanted=.; fi
        bash -c "exec $each" >"$scratch/tried" 2>&1 &
        pid=$!
        until grep -q "$wanted" "$scratch/tried"; do
            kill -0 "$pid" 2>/dev/null || fail "it ended by itself"
            sleep 0.05
        done
        kill -TERM "$pid"
        status=0
        wait "$pid" || status=$?
        ((status == 0)) || fail "a signal is how it ends: $(<"$scratch/tried")"
        ;;
    *) bash -c "$each" >"$scratch/tried" 2>&1 || fail "$(<"$scratch/tried")" ;;
    esac
    [[ -s $scratch/tried ]] || fail "nothing to see"
done
expect 0 messages "$url" --key order-1 --json
[[ $(grep -o '"finished_at":"[^"]*"' "$scratch/out") == $(grep -o '"finished_at":"[^"]*"' "$scratch/out" | sort) ]] ||
    fail "the steps of an order should end in their order"
expect 0 messages "$url" --topic invoice.send --state done
out_has invoice.send

# Without a URL it makes a store of its own; a signal ends it.
TMPDIR=$scratch "$posthorn" demo --json >"$scratch/out" 2>"$scratch/err" &
pid=$!
until compgen -G "$scratch/posthorn-demo.*/demo.db" >/dev/null; do sleep 0.05; done
kill -INT "$pid"
status=0
wait "$pid" || status=$?
out=$(<"$scratch/out") err=$(<"$scratch/err") command='demo in the background'
((status == 0)) || fail "a signal is how it ends"
out_matches '^\{"url":"sqlite:[^"]*/demo.db","enqueued":[0-9]+,"done":[0-9]+,"retried":[0-9]+,"dead":[0-9]+\}$'
expect 2 demo "$url" --seconds 0
