#!/usr/bin/env bash
# Installs the built project, then builds and runs somebody else's project against it.
# Proves: OUT-21, OPS-08
set -euo pipefail
build=$1 generator=$2 compiler=$3
here=$(dirname "${BASH_SOURCE[0]}")
scratch=$build/install-test
prefix=$scratch/prefix

fail() {
    printf 'failed: %s\n' "$1" >&2
    exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch"
cmake --install "$build" --prefix "$prefix" >"$scratch/install.log" || fail 'cmake --install'
[[ -x $prefix/bin/posthorn ]] || fail 'the program is not installed'

# The unit starts the program that was installed, and is otherwise the one of the sources.
unit=$prefix/lib/systemd/system/posthorn.service
grep -qxF "ExecStart=$prefix/bin/posthorn serve --config /etc/posthorn/posthorn.toml" "$unit" ||
    fail 'the unit does not start the installed program'
diff <(sed "s#$prefix/bin/#/usr/bin/#" "$unit") "$here/../../packaging/posthorn.service" ||
    fail 'the unit is another'
cmp "$prefix/share/posthorn/posthorn.toml" "$here/../../packaging/posthorn.toml" ||
    fail 'the example of a configuration is not installed'

cmake -S "$here/consumer" -B "$scratch/consumer" -G "$generator" \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/configure.log" 2>&1 ||
    { cat "$scratch/configure.log" && fail 'the consumer does not configure'; }
cmake --build "$scratch/consumer" >"$scratch/build.log" 2>&1 ||
    { cat "$scratch/build.log" && fail 'the consumer does not build'; }

[[ $("$scratch/consumer/consumer") == 'greeting: hello' ]] || fail 'the consumer delivers nothing'
[[ $("$scratch/consumer/enqueue_only") == enqueued\ ????????-????-7* ]] || fail 'nothing enqueued'
# Coroutines are there exactly if the library was built with them.
if grep -q '^POSTHORN_WITH_ASIO:BOOL=ON' "$build/CMakeCache.txt"; then
    [[ $("$scratch/consumer/coroutines") == 'greeting: hello' ]] || fail 'no coroutine delivers'
elif [[ -e $scratch/consumer/coroutines ]]; then
    fail 'coroutines without Boost'
fi

# A small target is small only if the worker's side is not in it.
symbols() { nm --demangle --defined-only "$scratch/consumer/$1"; }
grep -q ' posthorn::outbox::claim(' <<<"$(symbols consumer)" || fail 'nm does not show the symbol at all'
if grep -E ' posthorn::(outbox|worker|runtime::[a-z_]*)::' <<<"$(symbols enqueue_only)"; then
    fail 'an application that only enqueues contains the claiming side'
fi

# Nothing that was installed may point back to where it was built.
if grep -rIl --include='*.cmake' --include='*.hpp' -- "$build" "$prefix"; then
    fail 'installed files name the build folder'
fi
