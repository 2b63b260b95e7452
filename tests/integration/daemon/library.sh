# shellcheck shell=bash
# For the scripts of this folder: what those of the command line have, and a daemon in the
# background that is asked over HTTP.
source "$(dirname "${BASH_SOURCE[0]}")/../cli/library.sh"
here=$(dirname "${BASH_SOURCE[0]}")
daemon='' port='' helpers=() log=$scratch/log config=$scratch/posthorn.toml

# Whatever a test started ends with it.
end_all() {
    local each
    for each in $daemon "${helpers[@]}"; do
        kill -9 "$each" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$scratch"
}
trap end_all EXIT

# until_true COMMAND…: waits for a condition, not for a time.
until_true() {
    local tries=0
    until "$@"; do
        ((++tries < 1200)) || { err=$(tail -n 40 "$log") && fail "it never became true: $*"; }
        sleep 0.05
    done
}
log_has() { grep -qF -- "$1" "$log"; }
log_lacks() { ! grep -qF -- "$1" "$log"; }
log_count() { grep -cF -- "$1" "$log" || true; }

# configure <<END: writes the configuration.
configure() { cat >"$config"; }

# start ARGUMENTS…: a daemon in the background, until it is ready; its port is in $port.
start() {
    command="posthorn serve --config $config $*" status=0
    : >"$log"
    "$posthorn" serve --config "$config" "$@" >"$scratch/daemon-out" 2>"$log" </dev/null &
    daemon=$!
    until_true is_ready_or_gone
    kill -0 "$daemon" 2>/dev/null || { err=$(<"$log") && fail "the daemon did not start"; }
    port=$(sed -n 's/.*http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log" | tail -n 1)
}
is_ready_or_gone() { grep -qE ' ready |"message":"ready"' "$log" || ! kill -0 "$daemon" 2>/dev/null; }

# ends_with STATUS: waits for the end of the daemon.
ends_with() {
    status=0
    wait "$daemon" || status=$?
    daemon=''
    err=$(<"$log")
    ((status == $1)) || fail "the daemon should exit with $1"
}
stop() {
    kill -TERM "$daemon"
    ends_with 0
}

# reload: reads the file again, and waits until that is over.
reload() {
    local before
    before=$(grep -cE 'was read again|stays as it was' "$log" || true)
    kill -HUP "$daemon"
    until_true eval '(($(grep -cE "was read again|stays as it was" "$log") > '"$before"'))'
}

# start_silent: somebody who accepts connections and never says a word, at the port in $silent.
start_silent() {
    python3 -c 'import socket, sys
server = socket.create_server(("127.0.0.1", 0), backlog=100)
print(server.getsockname()[1], flush=True)
kept = []
while True: kept.append(server.accept())' >"$scratch/silent" &
    helpers+=($!)
    until_true test -s "$scratch/silent"
    silent=$(<"$scratch/silent")
}

# get PATH: asks the daemon; the status is in $code and the body in $body.
get() {
    local answer
    exec 5<>"/dev/tcp/127.0.0.1/$port" || fail "nobody listens at $port"
    printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$1" >&5
    answer=$(cat <&5)
    exec 5<&- 5>&-
    code=${answer#* } code=${code%% *}
    body=${answer#*$'\r\n\r\n'}
}
# metric_is PATTERN: whether a line of the metrics matches.
metric_is() {
    get /metrics
    grep -qE "^$1\$" <<<"$body"
}
state_is() { [[ $(state_of "$1") == "$2" ]]; }
state_of() {
    "$posthorn" message "${2:-$url}" "$1" --json | sed -n 's/.*"state":"\([a-z]*\)".*/\1/p'
}
count_is() { [[ $("$posthorn" stats "${3:-$url}" --json | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p") == "$2" ]]; }
