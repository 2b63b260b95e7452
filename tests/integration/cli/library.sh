# shellcheck shell=bash
# For the scripts of this folder, which are called with the program and the worker: a fresh
# directory, a store's URL in it, and the words to say what must be true.
set -euo pipefail
posthorn=$1 worker=$2
scratch=$(mktemp -d "$(dirname "$posthorn")/cli-test.XXXXXX")
# A file system that a test mounted here goes first.
trap 'if mountpoint -q "$scratch/disk"; then umount "$scratch/disk"; fi; rm -rf "$scratch"' EXIT
url=sqlite:$scratch/store.db
unknown_id=01890a5d-ac96-774b-bcce-b302099a8057
status=0 out='' err='' command=''

fail() {
    printf 'FAILED: %s\n  command: %s\n  exit code: %s\n' "$1" "$command" "$status" >&2
    printf '  stdout: %.2000s\n  stderr: %.2000s\n' "$out" "$err" >&2
    exit 1
}

# run ARGUMENTS…: runs the program; what came of it is in $status, $out and $err.
run() {
    command="posthorn $*" status=0
    "$posthorn" "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
    out=$(tr -d '\0' <"$scratch/out") err=$(tr -d '\0' <"$scratch/err")
}

# expect STATUS ARGUMENTS…: runs the program, which must exit so. An error must be explained on
# stderr; success must not be spoilt by one.
expect() {
    run "${@:2}"
    ((status == $1)) || fail "the exit code should be $1"
    [[ $err != *'posthorn: '* || $1 != 0 ]] || fail "success with an error message"
    [[ $err == *'posthorn: '* || $err == '{"error":'* || $1 != 2 ]] || fail "an error without words"
}

out_is() { [[ $out == "$1" ]] || fail "stdout should be '$1'"; }
out_has() { [[ $out == *"$1"* ]] || fail "stdout should contain '$1'"; }
out_lacks() { [[ $out != *"$1"* ]] || fail "stdout should not contain '$1'"; }
out_matches() { [[ $out =~ $1 ]] || fail "stdout should match '$1'"; }
err_has() { [[ $err == *"$1"* ]] || fail "stderr should contain '$1'"; }
err_is_empty() { [[ -z $err ]] || fail "stderr should be empty"; }

# Prints the value of a number or string in the JSON of the last command.
json_value() {
    local pattern="\"$1\":\"?([^\",}]*)"
    [[ $out =~ $pattern ]] || fail "there is no \"$1\" in stdout"
    printf %s "${BASH_REMATCH[1]}"
}

# enqueue ARGUMENTS…: adds a message; its id is in $id.
enqueue() {
    expect 0 enqueue "$url" "$@"
    id=$out
}

# Runs the script once more where it may mount file systems, or skips the test.
in_own_mounts() {
    [[ -z ${POSTHORN_OWN_MOUNTS:-} ]] || return 0
    local unshare=(unshare -m)
    ((EUID == 0)) || unshare=(unshare -rm)
    # Inside a chroot the root is no mount point, and its propagation cannot be changed.
    "${unshare[@]}" true 2>/dev/null || unshare+=(--propagation unchanged)
    if ! "${unshare[@]}" true 2>/dev/null; then
        echo "skipped: this machine does not let ${unshare[*]} make a mount namespace"
        exit 77
    fi
    status=0
    POSTHORN_OWN_MOUNTS=1 "${unshare[@]}" bash "$0" "$posthorn" "$worker" || status=$?
    exit "$status"
}
