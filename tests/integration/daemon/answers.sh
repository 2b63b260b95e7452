#!/usr/bin/env bash
# What an endpoint of webhooks answers, and what that costs a message: 410 is the end, a no is a
# failure that is tried again and bounded, and who is broken or away costs nothing.
# Proves: TRN-01, TRN-02, F7
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

# A sink that answers with the status that is in the path, or 200 once there is the file "fixed".
python3 - "$scratch/fixed" >"$scratch/port" <<'END' &
import http.server, os, sys
class Sink(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if os.path.exists(sys.argv[1]) else int(self.path[1:]))
        self.send_header("Content-Length", "0")
        self.send_header("Location", "/200")
        self.end_headers()
    def log_message(self, *_): pass
    protocol_version = "HTTP/1.1"
sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
print(sink.server_port, flush=True)
sink.serve_forever()
END
helpers+=($!)
until_true test -s "$scratch/port"
sink=$(<"$scratch/port")

configure <<END
[daemon]
listen = "127.0.0.1:0"
attempts = 3
backoff = "20ms"
[[stores]]
url = "$url"
[transports.partner]
url = "http://127.0.0.1:$sink/200"
allow_private = ["127.0.0.0/8"]
failures_max = 1000000
[[relays]]
on = "out"
to = "partner"
destination = "http://127.0.0.1:$sink/{header.status}"
pause = "20ms"
[[relays]]
on = "later"
to = "partner"
destination = "http://127.0.0.1:$sink/{header.status}"
pause = "1h"
[transports.away]
url = "amqp://127.0.0.1:1"
[[relays]]
on = "kept"
to = "away"
END
start
# dies STATUS ATTEMPTS WHY: a message that is answered so is dead after so many.
dies() {
    enqueue --topic out --payload '{}' --header "status=$1"
    until_true state_is "$id" dead
    expect 0 message "$url" "$id" --json
    [[ $(json_value attempts) == "$2" ]] || fail "$1 should be the end after $2 attempts"
    out_has "$3: http://127.0.0.1:$sink/… answered $1"
}
dies 410 1 gone
for each in 302 308 400 401 403 404 405 413 415 422 431; do
    dies $each 3 declined
done

# What waits for another system says so: put off, or kept by whoever will send it.
because() {
    expect 0 why "$url" "$id" --json
    [[ $(json_value reason) == "$1" ]]
}
enqueue --topic later --payload '{}' --header status=503
until_true because postponed
out_has 'had it and has put it off, at no cost'
expect 0 message "$url" "$id" --json
[[ $(json_value attempts) == 0 && $(json_value errors) == 0 ]] || fail "that is no failure"
enqueue --topic kept --payload '{}'
until_true because started
out_matches 'has started it \(attempt 1, [^)]*\); its lease ends in '

# Broken or busy, for longer than all attempts would last: it waits, and has lost none.
declare -A waiting
for each in 408 409 423 425 429 500 502 503 504; do
    enqueue --topic out --payload '{}' --header "status=$each"
    waiting[$each]=$id
done
until_true metric_is 'posthorn_published_total\{transport="partner",answer="refused"\} [1-9][0-9][0-9]'
touch "$scratch/fixed"
for each in "${!waiting[@]}"; do
    until_true state_is "${waiting[$each]}" "done"
    expect 0 message "$url" "${waiting[$each]}" --json
    [[ $(json_value attempts) == 1 && $(json_value errors) == 0 ]] || fail "$each costs nothing"
done

# Once it is put right, what has died is sent by one command.
expect 0 dead redrive "$url" --all
until_true count_is dead 0
until_true metric_is 'posthorn_published_total\{transport="partner",answer="accepted"\} 21'
stop
