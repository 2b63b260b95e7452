#!/usr/bin/env bash
# Configures the project on a machine that lacks the client library of a broker: the error says what
# to install and what to switch off, and without that transport everything else configures, with
# tests, examples and benchmarks.
set -euo pipefail
source=$1 build=$2 generator=$3 compiler=$4
scratch=$build/missing-clients-test
real=$(command -v pkg-config)

fail() {
    printf 'failed: %s\n' "$1" >&2
    cat "$scratch/log" >&2
    exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch"
trap 'rm -rf "$scratch/build"' EXIT
cat >"$scratch/pkg-config" <<'END'
#!/usr/bin/env bash
# The real one, but for one module, which is not there.
for word in "$@"; do
    [[ $word != "$DENIED" && $word != "$DENIED "* ]] || exit 1
done
exec "$REAL" "$@"
END
chmod +x "$scratch/pkg-config"
export REAL=$real DENIED=''

# configure MODULE [OPTIONS…]: without this module, forgetting what was found before; the compiler is
# asked only once.
configure() {
    DENIED=$1 cmake -S "$source" -B "$scratch/build" -G "$generator" -DCMAKE_CXX_COMPILER="$compiler" \
        -DPKG_CONFIG_EXECUTABLE="$scratch/pkg-config" -DPOSTHORN_BUILD_TESTS=ON -DPOSTHORN_BUILD_BENCH=ON \
        -DPOSTHORN_BUILD_EXAMPLES=ON -U '*_client_*' -U '__pkg_config_*' -U 'httplib_*' -U 'tomlplusplus_*' \
        -U 'USERS_*' -U 'POSTHORN_WITH_*' "${@:2}" >"$scratch/log" 2>&1
}
# The message is broken into lines.
log_has() { tr -s ' \n' ' ' <"$scratch/log" | grep -qF -- "$1" || fail "the message lacks: $1"; }

# lacks MODULE PACKAGE OPTION
lacks() {
    ! configure "$1" || fail "without $1 it configures"
    log_has "$1"
    log_has "(Debian: $2)"
    log_has "-D$3=OFF"
    configure "$1" "-D$3=OFF" || fail "it does not configure with $3=OFF"
    echo "without $1: says so, and configures with $3=OFF"
}
lacks librabbitmq librabbitmq-dev POSTHORN_WITH_RABBITMQ
lacks libnats libnats-dev POSTHORN_WITH_NATS
lacks hiredis libhiredis-dev POSTHORN_WITH_REDIS
lacks rdkafka librdkafka-dev POSTHORN_WITH_KAFKA
lacks libcurl libcurl4-openssl-dev POSTHORN_WITH_WEBHOOK

# The program itself needs these two.
configure cpp-httplib -DPOSTHORN_WITH_ENDPOINT=OFF && fail 'without cpp-httplib it configures'
log_has '(Debian: libcpp-httplib-dev)'
configure tomlplusplus && fail 'without toml++ it configures'
log_has '(Debian: libtomlplusplus-dev)'
configure '' -DPOSTHORN_WITH_ENDPOINT=OFF || fail 'it does not configure without the endpoint'

# With none of them it is still a library with a program.
configure '' -DPOSTHORN_WITH_{RABBITMQ,NATS,REDIS,KAFKA,WEBHOOK,ENDPOINT,ASIO}=OFF ||
    fail 'it does not configure without any'
