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
command = ["sh", "-c", 'echo "I was told \$POSTHORN_TEST_SECRET"; echo "handled" >>$scratch/handled']
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
    # What a handler writes is searched, too.
    enqueue --topic t --payload x
    until_true log_has 'I was told ***'
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

# Other systems: what is in their URLs, and what stands beside them. Nothing listens at these ports.
signing=whsec_$(printf '%s' "$canary-and-more-of-it" | base64)
export POSTHORN_TEST_HOOK=http://127.0.0.1:1/services/cAnArY-path?key=cAnArY-parameter POSTHORN_TEST_SIGNING=$signing
configure <<END
[daemon]
listen = "127.0.0.1:0"
log_level = "debug"
[[stores]]
name = "good"
url = "$url"
[transports.rabbit]
url = "amqp://app:$encoded@127.0.0.1:1/x,amqp://app:cAnArY-two@127.0.0.1:2/x"
[transports.nats]
url = "nats://127.0.0.1:1"
user = "app"
password = { env = "POSTHORN_TEST_SECRET" }
[transports.nats-token]
url = "nats://cAnArY-token@127.0.0.1:1"
[transports.nats-own-token]
url = "nats://127.0.0.1:1"
token = { file = "$scratch/secret" }
[transports.redis]
url = "redis://:\${POSTHORN_TEST_SECRET}@127.0.0.1:1"
[transports.kafka]
url = "kafka://127.0.0.1:1"
user = "app"
password = { env = "POSTHORN_TEST_SECRET" }
settings = { "ssl.key.password" = "cAnArY-key", "client.rack" = "shelf" }
[transports.hook]
url = { env = "POSTHORN_TEST_HOOK" }
secrets = [{ env = "POSTHORN_TEST_SIGNING" }, "cAnArY-long-enough"]
headers = { Authorization = "Bearer cAnArY-header" }
allow_private = ["127.0.0.0/8"]
[transports.hook-in-parts]
url = "http://127.0.0.1:1/services/\${POSTHORN_TEST_SECRET}"
allow_private = ["127.0.0.0/8"]
$(for each in rabbit nats nats-token nats-own-token redis kafka hook hook-in-parts; do
    printf '[[relays]]\non = "to.%s"\nto = "%s"\n' $each $each
done)
[[feeds]]
from = "amqp://app:\${POSTHORN_TEST_SECRET}@127.0.0.1:1/x"
queue = "q"
source = "rabbit"
[[feeds]]
from = "nats://\${POSTHORN_TEST_SECRET}@127.0.0.1:1"
stream = "s"
consumer = "c"
source = "nats"
[[feeds]]
from = "redis://app:$encoded@127.0.0.1:1"
stream = "s"
group = "g"
source = "redis"
[[feeds]]
from = "kafka://127.0.0.1:1"
user = "app"
password = "cAnArY-kafka"
topics = "t"
group = "g"
source = "kafka"
[[endpoints]]
listen = "127.0.0.1:0"
path = "/hooks"
source = "web"
secrets = [{ env = "POSTHORN_TEST_SIGNING" }, "cAnArY-long-enough"]
END
# The secret itself is known to the program alone.
is_clean_of_all() {
    is_clean "$@"
    ! grep -qF -e "${signing#whsec_}" "$@" || fail "a secret that signs was told"
}
expect 0 serve --config "$config" --check
is_clean_of_all "$scratch/out" "$scratch/err"
out_has 'rabbit: amqp://app:***@127.0.0.1:1/x,amqp://app:***@127.0.0.1:2/x'
out_has 'nats-token: nats://***@127.0.0.1:1'
out_has 'redis: redis://:***@127.0.0.1:1'
out_has 'hook: http://127.0.0.1:1/…'
expect 0 serve --config "$config" --check --json
is_clean_of_all "$scratch/out" "$scratch/err"
out_has '"url":"http://127.0.0.1:1/…"'
python3 -c 'import json, sys; assert json.load(sys.stdin)["valid"] is True' <<<"$out" || fail "JSON stays JSON"
expect 1 serve --config "$config" --check --connect
is_clean_of_all "$scratch/out" "$scratch/err"
out_has 'FAILED     transport rabbit'
for form in text json; do
    sed -i "s/^log = .*//; s/^log_level/log = \"$form\"\nlog_level/" "$config"
    start
    port=$(sed -n 's/.*listening[ "].*at["=:]*http:\/\/127.0.0.1:\([0-9]*\).*/\1/p' "$log" | head -n 1)
    for each in rabbit nats nats-token nats-own-token redis kafka hook hook-in-parts; do
        expect 0 enqueue "$url" --topic "to.$each" --payload x
    done
    for each in rabbit nats nats-token nats-own-token redis kafka; do
        until_true metric_is "posthorn_transport_ready\\{transport=\"$each\"\\} 0"
    done
    printf '%s\n' "$body" >"$scratch/metrics"
    python3 "$here/exposition.py" <"$scratch/metrics" >/dev/null || fail "the metrics are wrong"
    get /readyz
    printf '%s' "$body" >"$scratch/ready"
    cp "$config" "$scratch/good"
    sed -i 's/@127.0.0.1:1/@127.0.0.1:99999/; s/"cAnArY-long-enough"/"cAnArY-short"/' "$config"
    kill -HUP "$daemon"
    until_true log_has 'stays as it was'
    cp "$scratch/good" "$config"
    stop
    is_clean_of_all "$log" "$scratch/daemon-out" "$scratch/ready" "$scratch/metrics"
done
# The verbs that do one of these. Nothing is there to be relayed, and nobody to feed from.
expect 0 relay "$url" --on none --to "amqp://app:$encoded@127.0.0.1:1" --until-empty
is_clean_of_all "$scratch/out" "$scratch/err"
for each in "nats://cAnArY-token@127.0.0.1:1" "redis://app:$encoded@127.0.0.1:1"; do
    command="posthorn relay … $each" status=0
    enqueue --topic verb --payload x
    timeout -s TERM 2 "$posthorn" relay "$url" --on verb --to "$each" >"$scratch/out" 2>"$scratch/err" || status=$?
    err=$(<"$scratch/err")
    err_has relaying
    is_clean_of_all "$scratch/out" "$scratch/err"
done
expect 2 relay "$url" --on t --to "amqp://app:$encoded@127.0.0.1:99999"
is_clean_of_all "$scratch/out" "$scratch/err"
expect 2 relay "$url" --on t --to "http://127.0.0.1:1/services/cAnArY" --set secrets=cAnArY
is_clean_of_all "$scratch/out" "$scratch/err"
timeout -s TERM 2 "$posthorn" feed "$url" --from "redis://app:$encoded@127.0.0.1:1" --set stream=7 --set group=1 \
    --source s >"$scratch/out" 2>"$scratch/err" || true
err=$(<"$scratch/err")
err_has feeding
is_clean_of_all "$scratch/out" "$scratch/err"
# What looks like a number is a text where one is meant.
timeout -s TERM 1 "$posthorn" relay "$url" --on none --to nats://127.0.0.1:1 --set user=7 --set password=12345678 \
    --until-empty >"$scratch/out" 2>"$scratch/err" || fail "a password of digits: $(<"$scratch/err")"

# Passwords that a query finds are secrets as well.
sqlite3 "$scratch/list.db" "CREATE TABLE tenants (name TEXT, password TEXT);
    INSERT INTO tenants VALUES ('anna', 'cAnArY-anna@'), ('bert', 'cAnArY-bert')"
configure <<END
[daemon]
listen = "127.0.0.1:0"
log_level = "debug"
[[stores]]
discover = { url = "sqlite:$scratch/list.db", query = "SELECT * FROM tenants", name = "{name}-{password}", store = "postgresql://{name}:{password}@127.0.0.1:1/x" }
[[handlers]]
on = "t"
command = ["true"]
END
expect 1 serve --config "$config" --check --connect
told
expect 1 serve --config "$config" --check --connect --json
told
start
until_true eval 'get /readyz; [[ $body == *"\"failing\":2"* ]]'
printf '%s' "$body" >"$scratch/ready"
get /metrics
printf '%s\n' "$body" >"$scratch/metrics"
python3 "$here/exposition.py" <"$scratch/metrics" >/dev/null || fail "the metrics are wrong"
stop
is_clean "$log" "$scratch/ready" "$scratch/metrics"

# A secret that is a word of ours: the pages stay what they are. Names of stores may be any bytes.
mkdir "$scratch/files"
for each in failing plain $'n\xc3\xa4me' $'no\xfftext\xe2\x82' $'over\xc0\xaflong'; do
    "$posthorn" init "sqlite:$scratch/files/$each.db" >/dev/null
done
configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
url = "sqlite:$scratch/files/*.db"
[[stores]]
name = "posthorn and failing"
url = "postgresql://app:posthorn@127.0.0.1:1/x?password=failing"
[[handlers]]
on = "t"
command = ["true"]
END
start
until_true eval 'get /readyz; [[ $body == *"\"failing\":1"* ]]'
[[ $body == *'{"ready":true,'*'"store":"*** and ***"'* ]] || fail "the answer stays what it is: $body"
python3 -c 'import json, sys; assert json.load(sys.stdin)["ready"] is True' <<<"$body" || fail "JSON stays JSON"
until_true metric_is 'posthorn_stores 6'
printf '%s\n' "$body" >"$scratch/metrics"
python3 "$here/exposition.py" <"$scratch/metrics" >/dev/null || fail "the metrics are wrong"
grep -qE '^posthorn_build_info\{version="' "$scratch/metrics" || fail "names of metrics stay as they are"
grep -qF 'posthorn_store_failing{store="*** and ***"} 1' "$scratch/metrics" || fail "values of labels do not"
grep -qF $'/n\xc3\xa4me.db"} 0' "$scratch/metrics" || fail "text of any language is text"
grep -qF '/no%FFtext%E2%82.db"} 0' "$scratch/metrics" || fail "what is none is shown in hexadecimal digits"
grep -qF '/over%C0%AFlong.db"} 0' "$scratch/metrics" || fail "nor is what could be written shorter"
stop

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

# Passwords that were not encoded are in nothing that is told either. Nothing listens at these ports.
configure <<END
[daemon]
listen = "127.0.0.1:0"
[[stores]]
url = "mariadb://app:5cAnArY/and/cAnArY@127.0.0.1:1/x"
[[stores]]
url = "postgresql://app@127.0.0.1:1/y?password=cAnArY/?x"
[[stores]]
url = "postgresql://127.0.0.1:1/cAnArY?user=x@cAnArY"
[[handlers]]
on = "t"
command = ["true"]
END
expect 1 serve --config "$config" --check --connect
told
start
until_true eval 'get /readyz; [[ $body == *"\"failing\":3"* ]]'
printf '%s' "$body" >"$scratch/ready"
stop
is_clean "$log" "$scratch/ready"
wrong '%2F for /' <<'END'
[[stores]]
url = "postgresql://app:cAnArY/x@db/x"
END
wrong '%3F for ?' <<'END'
[[stores]]
url = "mariadb://app:a?cAnArY@db/x"
END
wrong '%3F for ?' <<'END'
[[stores]]
url = "postgresql://app:a?cAnArY=1@db/x"
END
for each in 'postgresql://app:cAnArY/x@h/x' 'mariadb://app:x?cAnArY@h/x' 'mariadb://app:%zcAnArY@h/x'; do
    expect 2 stats "$each"
    told
    expect 2 stats sqlite:a "$each"
    told
done

# A number without quotes is a secret, too.
for each in 98765432109876543210987 0x98765432109876543210987; do
    configure <<END
[transports.nats]
url = "nats://127.0.0.1:1"
password = $each
END
    expect 2 serve --config "$config" --check
    ! grep -q 9876543210 "$scratch/err" || fail "the number was told"
done

# What handlers write becomes the error of their message, in `work` and in the daemon: not a secret
# of one line or of several, nor one that a reader meets in two parts.
export POSTHORN_TEST_KEY=$'-----BEGIN-----\ncAnArY-line-one\ncAnArY-line-two\n-----END-----'
cat >"$scratch/tell" <<'END'
printf '%s\n' "$POSTHORN_TEST_KEY" >&2
head -c "$1" /dev/zero | tr '\0' x >&2
printf '%s' "$POSTHORN_TEST_SECRET" >&2
head -c 20000 /dev/zero | tr '\0' y >&2
printf '%s\n' "$POSTHORN_TEST_KEY" >&2
printf '%s' "$POSTHORN_TEST_SECRET" >&2
head -c 1995 /dev/zero | tr '\0' z >&2
exit 65
END
for form in text json; do
    configure <<END
[daemon]
listen = "127.0.0.1:0"
log = "$form"
[[stores]]
name = "good"
url = "$url"
[transports.nats]
url = "nats://127.0.0.1:1"
password = { env = "POSTHORN_TEST_SECRET" }
[transports.nats-with-key]
url = "nats://127.0.0.1:1"
password = { env = "POSTHORN_TEST_KEY" }
$(for bytes in 8185 8190 65530; do
        printf '[[handlers]]\non = "tell.%s"\ncommand = ["sh", "%s/tell", "%s"]\n' $bytes "$scratch" $bytes
    done)
END
    start
    for bytes in 8185 8190 65530; do enqueue --topic tell.$bytes --payload x; done
    until_true eval '[[ $("$posthorn" dead list "$url" --json | grep -o "\"id\"" | wc -l) -ge 3 ]]'
    stop
    "$posthorn" dead list "$url" --json >"$scratch/dead"
    grep -q zzzz "$scratch/dead" || fail "the error of the handler is kept"
    is_clean "$log" "$scratch/dead"
    "$posthorn" dead purge "$url" --all --yes >/dev/null 2>&1 || true
done
enqueue --topic tell --payload x
PGPASSWORD=$canary expect 0 work "$url" --on tell --until-empty -- sh "$scratch/tell" 8190
"$posthorn" dead list "$url" --json >"$scratch/dead"
! grep -qF "$canary" "$scratch/dead" "$scratch/err" || fail "a password was told"
