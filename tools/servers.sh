#!/usr/bin/env bash
# Private databases and brokers for tests: nothing of the system's is used, changed or stopped.
#
#   tools/servers.sh start DIR [NAME…]   all of them, or these, at the same time
#   tools/servers.sh stop DIR            ends those that run and removes their data
#   tools/servers.sh env DIR             how tests find them, for a shell to read
#
#   tools/servers.sh NAME start DIR [option…]   one of them
#   tools/servers.sh NAME kill DIR              a crash: all of its processes at once
#   tools/servers.sh NAME freeze DIR            it hangs: all of its processes stand still
#   tools/servers.sh NAME thaw DIR              and go on
#   tools/servers.sh NAME stop DIR
#
# NAME is postgres, mariadb, rabbitmq, nats or redis.
#
# A killed server that is started again has its old data and its old port. Options are the server's
# own and come last, so that they win: `-c fsync=on`, `--max-connections=5`.
#
# DIR receives NAME.{pid,port,home,log} and `env`. Data and sockets are where NAME.home says: root
# may own a DIR that the server's user cannot reach, and a socket's path must be short.
# POSTHORN_TEST_PORTS=FIRST-LAST chooses other ports. They are below those that the system gives to
# outgoing connections, because a killed server must find its port free when it comes back.
set -euo pipefail

names=(postgres mariadb rabbitmq nats redis)
ports=${POSTHORN_TEST_PORTS:-20000-32000}

# --------------------------------------------------------------------------------- the databases

# Neither waits for the disk: these databases live for one run of the tests.
postgres_user=postgres
postgres_variable=POSTHORN_TEST_POSTGRESQL
postgres_stop_signal=INT # its SIGTERM would wait until the last client has left
postgres_url() { printf 'postgresql://postgres@127.0.0.1:%s/postgres' "$port"; }
postgres_socket() { printf '%s/.s.PGSQL.%s' "$home" "$port"; }
postgres_create() {
    "${become[@]}" "$(postgres_program initdb)" -D "$home/data" -U postgres -A trust -E UTF8 \
        --locale=C.UTF-8 --no-sync --no-instructions
}
postgres_serve() {
    # Locks of a killed one: its number looks taken until somebody asks for its status.
    rm -f "$home/data/postmaster.pid" "$home/.s.PGSQL.$port.lock"
    exec setsid "${become[@]}" "$(postgres_program postgres)" -D "$home/data" -p "$port" \
        -k "$home" -c listen_addresses=127.0.0.1 -c max_connections=200 \
        -c max_prepared_transactions=10 -c fsync=off -c full_page_writes=off "$@"
}
postgres_answers() {
    "$(postgres_program pg_isready)" -q -h 127.0.0.1 -p "$port" -U postgres -d postgres -t 1
}

# Debian keeps several versions side by side, none of them on the PATH.
postgres_program() {
    local found
    found=$(printf '%s\n' /usr/lib/postgresql/*/bin/"$1" | sort -V | tail -n 1)
    [[ -x $found ]] || found=$(command -v "$1") || die "$1 is not installed"
    printf %s "$found"
}

mariadb_user=mysql
mariadb_variable=POSTHORN_TEST_MARIADB
mariadb_stop_signal=TERM
mariadb_url() { printf 'mariadb://root@127.0.0.1:%s/' "$port"; }
mariadb_socket() { printf '%s/mariadb.sock' "$home"; }
mariadb_create() {
    "${become[@]}" mariadb-install-db --no-defaults --datadir="$home/data" --skip-test-db \
        --auth-root-authentication-method=normal --skip-name-resolve --innodb-log-file-size=32M
}
mariadb_serve() {
    exec setsid "${become[@]}" mariadbd --no-defaults --datadir="$home/data" --port="$port" \
        --socket="$home/mariadb.sock" --bind-address=127.0.0.1 --skip-name-resolve \
        --max-connections=200 --innodb-log-file-size=32M --innodb-buffer-pool-size=64M \
        --innodb-flush-log-at-trx-commit=2 --innodb-flush-method=nosync --debug-no-sync \
        --skip-innodb-file-per-table "$@"
}
mariadb_answers() {
    mariadb-admin --no-defaults -h 127.0.0.1 -P "$port" -u root --connect-timeout=1 ping
}

# ----------------------------------------------------------------------------------- the brokers

# Debian's wrappers in /usr/sbin want to be root or the system's own node, so its parts are called.
rabbitmq_user=rabbitmq
rabbitmq_variable=POSTHORN_TEST_RABBITMQ
rabbitmq_stop_signal=KILL # as a family: the daemon would outlive it
rabbitmq_url() { printf 'amqp://guest:guest@127.0.0.1:%s/' "$port"; }
rabbitmq_socket() { printf '%s/control' "$home"; } # not a socket: runs rabbitmqctl on this node
rabbitmq_create() {
    local name=${POSTHORN_TEST_RABBITMQ_NODE:-posthorn-${home##*-}@localhost}
    local cookie=${POSTHORN_TEST_RABBITMQ_COOKIE:-$RANDOM$RANDOM$RANDOM}
    "${become[@]}" mkdir "$home/data" "$home/log"
    printf '%s\n' "$cookie" | "${become[@]}" tee "$home/data/.erlang.cookie" >/dev/null
    "${become[@]}" chmod 400 "$home/data/.erlang.cookie"
    printf '[].\n' >"$home/plugins"
    printf '%s = %s\n' loopback_users none log.console true log.file false \
        vm_memory_high_watermark.absolute 2GB disk_free_limit.absolute 50MB >"$home/rabbitmq.conf"
    # Erlang's nodes find each other through a daemon on a port of its own; those of a cluster
    # share it, and a secret (tools/clusters.sh).
    rabbitmq_environment=(env -i "PATH=$PATH" LANG=C.UTF-8 "HOME=$home/data"
        ERL_EPMD_ADDRESS=127.0.0.1 "ERL_EPMD_PORT=${POSTHORN_TEST_RABBITMQ_EPMD:-$(free_port)}"
        "RABBITMQ_DIST_PORT=$(free_port)"
        "RABBITMQ_NODENAME=$name" "RABBITMQ_MNESIA_BASE=$home/data" "RABBITMQ_LOG_BASE=$home/log"
        "RABBITMQ_CONFIG_FILE=$home/rabbitmq.conf" "RABBITMQ_ENABLED_PLUGINS_FILE=$home/plugins"
        RABBITMQ_CONF_ENV_FILE=/dev/null RUNNING_UNDER_SYSTEMD=1)
    rabbitmq_environment+=("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput +S 1:1 +sbwt none \
-kernel inet_dist_use_interface {127,0,0,1}")
    printf '#!/usr/bin/env bash\nexec' >"$home/control"
    printf ' %q' "${become[@]}" "${rabbitmq_environment[@]}" >>"$home/control"
    cp "$home/control" "$home/launch"
    printf ' /usr/lib/rabbitmq/bin/rabbitmqctl "$@"\n' >>"$home/control"
    printf ' "$@"\n' >>"$home/launch"
    chmod +x "$home/control" "$home/launch"
}
rabbitmq_serve() {
    sed -i '/^listeners/d' "$home/rabbitmq.conf"
    printf '%s\n' "listeners.tcp.1 = 127.0.0.1:$port" "$@" >>"$home/rabbitmq.conf"
    "$home/launch" epmd & # a child of the server, which this shell becomes
    exec setsid "$home/launch" /usr/lib/rabbitmq/bin/rabbitmq-server
}
# Somebody else may answer on its port while it still boots.
rabbitmq_answers() {
    { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null && exec 3>&- &&
        awk '/Starting RabbitMQ/ { up = 0 } /Server startup complete/ { up = 1 } END { exit !up }' \
            "$dir/rabbitmq.log"
}

nats_user=nats
nats_variable=POSTHORN_TEST_NATS
nats_stop_signal=TERM
nats_url() { printf 'nats://127.0.0.1:%s' "$port"; }
nats_socket() { printf ''; }
nats_create() { "${become[@]}" mkdir "$home/data"; }
nats_serve() {
    exec setsid "${become[@]}" nats-server -a 127.0.0.1 -p "$port" -js -sd "$home/data" "$@"
}
nats_answers() {
    local greeting
    exec 3<>"/dev/tcp/127.0.0.1/$port" && read -r -t 1 greeting <&3 && exec 3>&- &&
        [[ $greeting == INFO* ]]
}

redis_user=redis
redis_variable=POSTHORN_TEST_REDIS
redis_stop_signal=KILL # it refuses to end while it writes its file anew
redis_url() { printf 'redis://127.0.0.1:%s' "$port"; }
redis_socket() { printf '%s/redis.sock' "$home"; }
redis_create() { "${become[@]}" mkdir "$home/data"; }
redis_serve() {
    # Its process shows a title instead of its arguments.
    exec setsid "${become[@]}" redis-server --port "$port" --bind 127.0.0.1 --dir "$home/data" \
        --unixsocket "$home/redis.sock" --proc-title-template "redis $home/data" \
        --appendonly yes --appendfsync everysec --save '' "$@"
}
redis_answers() { [[ $(redis-cli -p "$port" ping) == PONG ]]; }

# ----------------------------------------------------------------------------------------- verbs

# The verbs for one server: its name, then its own options.
start_one() {
    local name=$1 home='' port='' become=()
    shift
    known "$name" && running "$name" && die "$name runs already, as $dir says"
    become_user "$name"
    if [[ -n $home ]]; then # it was here before
        serve "$name" "$@" || give_up "$name does not start again"
        return
    fi
    home=$(make_home "$name")
    printf '%s\n' "$home" >"$dir/$name.home"
    TMPDIR=$home "${name}_create" >"$dir/$name.log" 2>&1 || die "no data for $name: see $dir/$name.log"
    for _ in 1 2 3 4 5; do # somebody may take a free port before we do
        port=$(free_port)
        serve "$name" "$@" && return
    done
    give_up "$name does not start"
}

# What the server said last tells more than where it stands: a test's folder is soon gone.
give_up() {
    tail -n 5 "$dir/$name.log" >&2
    die "$1: see $dir/$name.log"
}

stop_one() {
    local home='' port='' signal=${1}_stop_signal
    known "$1" || return 0
    end_process "$1" "${!signal}"
    rm -rf "$home"
    rm -f "$dir/$1".{pid,port,home}
    write_env
}

kill_one() {
    local home='' port=''
    known "$1" && running "$1" || die "$1 does not run"
    end_process "$1" KILL
    write_env
}

freeze_one() { signal_family "$1" STOP; }
thaw_one() { signal_family "$1" CONT; }

# signal_family <name> <signal>: the server and its children, of which new ones may come meanwhile.
signal_family() {
    local home='' port='' pid
    known "$1" && running "$1" || die "$1 does not run"
    pid=$(<"$dir/$1.pid")
    kill -s "$2" "$pid"
    children_of "$pid" | while read -r pid; do kill -s "$2" "$pid" 2>/dev/null || true; done
}

# All at once; when one fails, the others do not stay behind.
start_all() {
    local name pid pids=() failed=0
    (($#)) || set -- "${names[@]}"
    for name; do
        start_one "$name" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=1
    done
    if ((failed)); then
        stop_all
        return 1
    fi
    write_env
}

stop_all() {
    local name
    for name in "${names[@]}"; do
        stop_one "$name"
    done
}

# ----------------------------------------------------------------------------------------- steps

# Starts the server at home and port, and waits until it answers. It has a session of its own:
# Ctrl-C at the terminal is for the tests, which then stop it themselves.
serve() {
    local name=$1 pid
    shift
    TMPDIR=$home "${name}_serve" "$@" </dev/null >>"$dir/$name.log" 2>&1 &
    pid=$!
    printf '%s\n' "$pid" >"$dir/$name.pid"
    printf '%s\n' "$port" >"$dir/$name.port"
    for _ in {1..2400}; do # a broker needs its time on a busy machine
        kill -0 "$pid" 2>/dev/null || return 1 # it has given up: a port taken, a bad option
        if "${name}_answers" >/dev/null 2>&1 && running "$name"; then
            write_env
            return
        fi
        sleep 0.05
    done
    end_process "$name" KILL
    return 1
}

# end_process <name> <signal>: returns when it is gone. A crash takes its children along.
end_process() {
    local pid family=()
    running "$1" || return 0
    pid=$(<"$dir/$1.pid")
    family=("$pid")
    if [[ $2 == KILL ]]; then mapfile -O 1 -t family < <(children_of "$pid"); fi
    kill -s "$2" "${family[@]}" 2>/dev/null || true # a child may have ended meanwhile
    for pid in "${family[@]}"; do
        while [[ -n $(command_of "$pid") ]]; do sleep 0.02; done
    done
}

children_of() {
    { cat /proc/[0-9]*/stat || true; } 2>/dev/null | # some end while we look
        awk -v parent="$1" '{ pid = $1; sub(/.*\) . /, "") } $1 == parent { print pid }'
}

# Empty for a process that has ended, even if nobody has asked for its status yet.
command_of() {
    { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null || true
}

# Whether DIR knows the server; sets home and port to what it knows.
known() {
    home='' port=''
    [[ -e $dir/$1.home ]] || return 1
    home=$(<"$dir/$1.home")
    if [[ -e $dir/$1.port ]]; then port=$(<"$dir/$1.port"); fi
}

# Whether the known server runs. Its number alone is no proof: numbers are used again.
running() {
    [[ -e $dir/$1.pid && $(command_of "$(<"$dir/$1.pid")") == *"$home/data"* ]]
}

# Servers refuse to be root; everybody else runs them as themselves.
become_user() {
    local user=${1}_user
    become=()
    ((EUID != 0)) || become=(setpriv --reuid="${!user}" --regid="${!user}" --init-groups --)
}

# A new folder that the server's user can reach. A socket's path has room for about 100 bytes.
make_home() {
    local user=${1}_user base made
    for base in "$(realpath -m "${TMPDIR:-/tmp}")" /tmp; do
        ((${#base} < 60)) && "${become[@]}" test -x "$base" || continue
        made=$(mktemp -d "$base/posthorn-XXXXXX" 2>/dev/null) || continue
        if ((EUID == 0)); then chown "${!user}" "$made"; fi
        printf %s "$made"
        return
    done
    die "there is no place for the data of $1 in ${TMPDIR:-/tmp} or /tmp"
}

free_port() {
    local first=${ports%-*} last=${ports#*-} port
    while :; do
        port=$((first + (RANDOM * 32768 + RANDOM) % (last - first + 1)))
        { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || break # nobody listens there
        exec 3>&-
    done
    printf %s "$port"
}

write_env() {
    local name home port variable
    for name in "${names[@]}"; do
        known "$name" && running "$name" || continue
        variable=${name}_variable
        printf 'export %s=%q\n' "${!variable}" "$("${name}_url")" "${!variable}_PORT" "$port" \
            "${!variable}_PID" "$(<"$dir/$name.pid")" \
            "${!variable}_SOCKET" "$("${name}_socket")"
        # A machine that builds beside the tests may let a connection wait for a while.
        if [[ $name == postgres ]]; then printf 'export PGCONNECT_TIMEOUT=20\n'; fi
    done >"$dir/env"
}

die() {
    printf 'servers: %s\n' "$1" >&2
    exit 1
}

usage() {
    sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

is_name() { [[ " ${names[*]} " == *" $1 "* ]]; }

case ${1:-} in
start | stop) verb=$1_all dir=${2:-} ;;
env) verb=cat dir=${2:-} ;;
*) is_name "${1:-}" && [[ ${2:-} =~ ^(start|kill|freeze|thaw|stop)$ ]] && verb=${2}_one dir=${3:-} || usage ;;
esac
[[ -n $dir ]] || usage
if [[ $verb == start_all ]]; then
    for name in "${@:3}"; do is_name "$name" || usage; done
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
cd / # where the server's user may be, too
case $verb in
*_all) "$verb" "${@:3}" ;;
*_one) "$verb" "$1" "${@:4}" ;;
*) cat "$dir/env" ;;
esac
