#!/usr/bin/env bash
# Ending and reloading wait for nobody who only holds a connection: senders of webhooks and those
# who look may be as slow as they like.
# Proves: OPS-03
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"
# configuration LISTEN HOOKS
configuration() {
    configure <<END
[daemon]
listen = "$1"
[[stores]]
name = "shop"
url = "$url"
[[endpoints]]
listen = "$2"
path = "/hook"
source = "partner"
unsigned_allowed = true
store = "shop"
topic = "hook"
[[handlers]]
on = ["t", "inbox:hook"]
command = ["sh", "-c", "echo \$POSTHORN_TOPIC >>$scratch/handled"]
END
}
# ports: where the last generation listens.
ports() {
    port=$(sed -n 's/.* listening at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log" | tail -n 1)
    hooks=$(sed -n 's/.*listening for webhooks at=http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log" | tail -n 1)
}
# hold: a sender that has begun and says a little now and then, so that no patience runs out.
hold() {
    python3 -c 'import socket, sys, time
held = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
held.sendall(b"POST /hook HTTP/1.1\r\nHost: localhost\r\nwebhook-id: slow\r\nContent-Length: 100000\r\n\r\nx")
open(sys.argv[2], "w").close()
while True:
    time.sleep(0.1)
    held.send(b"x")' "$hooks" "$scratch/held" 2>/dev/null &
    helpers+=($!)
    until_true test -e "$scratch/held"
    rm "$scratch/held"
}
takes_hooks() {
    exec 5<>"/dev/tcp/127.0.0.1/$hooks" || return 1
    printf 'POST /hook HTTP/1.1\r\nHost: localhost\r\nwebhook-id: %s\r\nConnection: close\r\nContent-Length: 4\r\n\r\nhook' "$RANDOM$RANDOM" >&5
    answer=$(cat <&5)
    exec 5<&- 5>&-
    [[ $answer == 'HTTP/1.1 202'* ]]
}

# The first signal is heard at once: nothing new begins. So is the second.
configuration 127.0.0.1:0 127.0.0.1:0
start
ports
takes_hooks || fail "it takes webhooks: $answer"
hold
since=$SECONDS
kill -TERM "$daemon"
until_true log_has 'ending what is in hand'
get /readyz
[[ $code == 503 && $body == *'"draining":true'* ]] || fail "whoever asks is answered: $code $body"
kill -TERM "$daemon"
until_true eval 'log_has "ending now" || ! kill -0 "$daemon" 2>/dev/null'
status=0
wait "$daemon" || status=$?
daemon=''
((SECONDS - since < 4)) || fail "it waited for a sender: $((SECONDS - since)) seconds"

# A reading that is refused moves nothing: neither who looks nor who sends has to go elsewhere.
start
ports
looked=$port hooked=$hooks
configuration 127.0.0.1:0 "127.0.0.1:$port"
sed -i '0,/127.0.0.1:0/s//localhost:0/' "$config"
reload
log_has 'stays as it was' || fail "the address is taken"
port=$looked
get /healthz
[[ $code == 200 ]] || fail "it is where it was"
until_true eval 'ports; takes_hooks'
# The same without anybody who looks.
configuration 127.0.0.1:0 "127.0.0.1:$looked"
sed -i '/^listen = "127.0.0.1:0"/d' "$config"
reload
port=$looked
get /healthz
[[ $code == 200 ]] || fail "it is still there"
# What it got and what it is told are one place: nothing moves.
configuration "127.0.0.1:$looked" "127.0.0.1:0"
reload
log_has 'was read again' || fail "it need not move"
get /healthz
[[ $code == 200 ]] || fail "it is still there"
# Elsewhere, if all of it can be.
configuration 127.0.0.1:0 127.0.0.1:0
reload
ports
[[ $port != "$looked" ]] || fail "it has moved"
get /metrics
until_true takes_hooks
configuration 127.0.0.1:0 "127.0.0.1:$hooks"
reload
until_true takes_hooks

# Somebody takes the address while the old endpoints close: the daemon has it again when it is free.
hold
python3 -c 'import socket, sys, time
open(sys.argv[2], "w").close()
while True:
    try:
        taken = socket.create_server(("127.0.0.1", int(sys.argv[1])))
        break
    except OSError: time.sleep(0.001)
time.sleep(600)' "$hooks" "$scratch/tries" &
taker=$!
helpers+=("$taker")
until_true test -e "$scratch/tries" # the address is free for a second only
kill -HUP "$daemon"
until_true log_has 'cannot listen for webhooks, will try again'
kill -9 "$taker"
wait "$taker" 2>/dev/null || true
until_true takes_hooks
get /healthz
[[ $code == 200 ]] || fail "the rest went on"
kill -TERM "$daemon"
kill -TERM "$daemon"
wait "$daemon" || true
daemon=''
