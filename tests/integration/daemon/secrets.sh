#!/usr/bin/env bash
# Secrets come from the environment, from files or from the configuration itself, and appear in
# nothing that the daemon says.
# Proves: OPS-03, OPS-04
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
canary=cAnArY-7%f@:/x
encoded=cAnArY-7%25f%40%3A%2Fx
export POSTHORN_TEST_SECRET=$canary
printf '%s\n' "$canary" >"$scratch/secret"
printf 'postgresql://app:%s@127.0.0.1:1/x' "$encoded" >"$scratch/url"
expect 0 init "$url"

# is_clean FILE…: whether nobody has said it.
is_clean() {
    ! grep -qiE 'canary' "$@" || { err=$(grep -iE canary "$@") && fail "a secret was told"; }
}
# told: what the last command has said, without the secret.
told() { is_clean "$scratch/out" "$scratch/err"; }

configure <<END
[daemon]
listen = "127.0.0.1:0"
log_level = "debug"
[metrics]
refresh = "100ms"
[[stores]]
name = "good"
url = "$url"
[[stores]]
url = "postgresql://app:\${POSTHORN_TEST_SECRET}@127.0.0.1:1/x?schema=a"
[[stores]]
url = { file = "$scratch/url" }
[[stores]]
url = "postgresql://app@127.0.0.1:1/y?password=\${POSTHORN_TEST_SECRET}"
[[stores]]
name = "maria"
url = "mariadb://app:$encoded@127.0.0.1:1/x"
[[handlers]]
on = "t"
command = ["true"]
END
chmod 644 "$config"
expect 0 serve --config "$config" --check
told
out_has 'postgresql://app:***@127.0.0.1:1/x'
err_has 'posthorn.toml:17:7: stores[4].url: holds a secret, and everybody on this machine can read'
expect 0 serve --config "$config" --check --json
told
out_has '"warnings":[{"file":'
expect 1 serve --config "$config" --check --connect
told
out_has 'FAILED'
expect 1 serve --config "$config" --check --connect --json
told
chmod 640 "$config"
expect 0 serve --config "$config" --check
[[ $err != *'holds a secret'* ]] || fail "nobody else can read the file"

for form in text json; do
    sed -i "s/^log = .*//; s/^log_level/log = \"$form\"\nlog_level/" "$config"
    start --json
    until_true eval 'get /readyz; [[ $body == *"\"failing\":4"* ]]'
    [[ $code == 200 ]] || fail "one store that answers is enough: $body"
    printf '%s' "$body" >"$scratch/ready"
    get /metrics
    printf '%s\n' "$body" >"$scratch/metrics"
    python3 "$here/exposition.py" <"$scratch/metrics" >/dev/null || fail "the metrics are wrong"
    grep -q 'store_failing{store="postgresql://app:\*\*\*@127.0.0.1:1/x?schema=a"} 1' "$scratch/metrics" ||
        fail "stores are named without their password"
    # A reload that fails may not tell it either.
    cp "$config" "$scratch/good"
    sed -i 's/127.0.0.1:1\/x?schema=a/127.0.0.1:1\/x?schema=a\&prefx=1/; s/"t"/""/' "$config"
    kill -HUP "$daemon"
    until_true log_has 'stays as it was'
    cp "$scratch/good" "$config"
    stop
    is_clean "$log" "$scratch/daemon-out" "$scratch/ready" "$scratch/metrics"
done

# What is wrong with a secret is told without it.
wrong() {
    configure
    expect 2 serve --config "$config" --check
    told
    err_has "$1"
    expect 2 serve --config "$config" --check --json
    told
}
wrong 'stores[0].url: ' <<'END'
[[stores]]
url = "postgresql://app:${POSTHORN_TEST_SECRET}@db/x?nonsense=1"
END
wrong 'stores[0].url: ' <<'END'
[[stores]]
url = "oracle://app:${POSTHORN_TEST_SECRET}@db/x"
END
wrong 'stores[0].url: ' <<'END'
[[stores]]
url = "mariadb://app:cAnArY7@db?tls=maybe"
END
wrong "stores[0].url: the environment variable 'POSTHORN_TEST_UNSET' is not set" <<'END'
[[stores]]
url = "postgresql://${POSTHORN_TEST_SECRET}:${POSTHORN_TEST_UNSET}@db/x"
END
wrong "stores[0].url: the file '$scratch/none' cannot be read" <<END
[[stores]]
url = { file = "$scratch/none" }
END
wrong 'stores[0].url: ' <<END
[[stores]]
url = { env = "POSTHORN_TEST_SECRET" }
END
