#!/usr/bin/env bash
# Endpoints of webhooks that fail are left alone, and operators see which: in the metrics and, once
# when that begins and once when it ends, in the log. However many there are, the metrics have an
# end, and they tell nothing of a URL but the host.
# Proves: OPS-04, TRN-01
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
expect 0 init "$url"

# A sink with several ports, which answers 500 while there is the file "broken".
python3 - "$scratch/broken" 4 >"$scratch/ports" <<'END' &
import http.server, os, sys, threading
class Sink(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500 if os.path.exists(sys.argv[1]) else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass
    protocol_version = "HTTP/1.1"
sinks = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink) for _ in range(int(sys.argv[2]))]
for each in sinks[1:]: threading.Thread(target=each.serve_forever, daemon=True).start()
print(*(each.server_port for each in sinks), flush=True)
sinks[0].serve_forever()
END
helpers+=($!)
until_true test -s "$scratch/ports"
read -r -a ports <"$scratch/ports"

configure <<END
[daemon]
listen = "127.0.0.1:0"
log_level = "debug"
[metrics]
endpoints_max = 2
[[stores]]
name = "shop"
url = "$url"
[transports.partners]
url = "http://127.0.0.1:${ports[0]}/path-canary?token=query-canary"
allow_private = ["127.0.0.0/8"]
failures_max = 2
pause_min = "200ms"
pause_max = "400ms"
[[relays]]
on = "out"
to = "partners"
destination = "{header.base}/path-canary/{id}?token=query-canary"
pause = "100ms"
END
start
# is_open NUMBER 0|1: what the metrics say of the endpoint at this port.
is_open() { metric_is "posthorn_webhook_endpoint_open\\{transport=\"partners\",endpoint=\"http://127.0.0.1:${ports[$1]}\"\\} $2"; }
opened() { metric_is "posthorn_webhook_endpoint_opened_total\\{transport=\"partners\",endpoint=\"$1\"\\} $2"; }

# One that is well is not there: the metrics are about those that were not.
enqueue --topic out --payload '{}' --header "base=http://127.0.0.1:${ports[0]}"
until_true state_is "$id" "done"
metric_is 'posthorn_webhook_endpoint_open\{.*' && fail "none has ever failed"

touch "$scratch/broken"
enqueue --topic out --payload '{}' --header "base=http://127.0.0.1:${ports[0]}" --count 5
until_true is_open 0 1
enqueue --topic out --payload '{}' --header "base=http://127.0.0.1:${ports[1]}" --count 5
until_true is_open 1 1
# It is tried again and again meanwhile, and that is no news.
until_true eval '(($(log_count "webhook http://127.0.0.1:'"${ports[0]}"'/… is left alone") >= 3))'
[[ $(grep -c "warning webhook http://127.0.0.1:${ports[0]}/… is left alone" "$log") == 1 ]] ||
    fail "that it is left alone is a warning once"
opened "http://127.0.0.1:${ports[0]}" 1 || fail "it began once"

# Those that have no room share a name.
enqueue --topic out --payload '{}' --header "base=http://127.0.0.1:${ports[2]}" --count 5
until_true metric_is 'posthorn_webhook_endpoint_open\{transport="partners",endpoint="other"\} 1'
opened other 1 || fail "the third shares a name"

rm "$scratch/broken"
until_true is_open 0 0
until_true is_open 1 0
until_true metric_is 'posthorn_webhook_endpoint_open\{transport="partners",endpoint="other"\} 0'
until_true metric_is 'posthorn_deliveries_settled_total\{topic="out",outcome="done"\} 16'
for each in "${ports[@]:0:3}"; do
    [[ $(grep -cE "info +webhook http://127.0.0.1:$each/… answers again" "$log") == 1 ]] ||
        fail "that $each answers again is told once"
done
count_is dead 0 || fail "none has died of it"

# Another one takes the place of the one that has been well for longer.
touch "$scratch/broken"
enqueue --topic out --payload '{}' --header "base=http://127.0.0.1:${ports[3]}" --count 5
until_true is_open 3 1
[[ $(grep -c '^posthorn_webhook_endpoint_open{' <<<"$body") == 3 ]] || fail "two, and the others"
opened other 2 || fail "what was counted is not lost"
python3 "$here/exposition.py" <<<"$body" >/dev/null || fail "the metrics are wrong"

# A reload takes other connections, which know nothing of it yet.
sed -i 's/failures_max = 2/failures_max = 1000000/' "$config"
reload
until_true is_open 3 0
[[ $body != *canary* ]] || fail "a path or a query is in the metrics"
log_lacks canary || fail "a path or a query is in the log"
stop
