#!/usr/bin/env bash
# What becomes of failed messages: rules of the daemon, of topics, of handlers and of relays; and
# relays that make what they need on real brokers.
# Proves: OPS-03, OUT-06, OUT-11, TRN-01, F7
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
: "${POSTHORN_TEST_NATS:?}" "${POSTHORN_TEST_RABBITMQ:?}"
expect 0 init "$url"
name=failures$$
configure <<END
[daemon]
listen = "127.0.0.1:0"
attempts = 2
backoff = "20ms"
on_dead = "skips"
[[stores]]
url = "$url"
[[topics]]
on = "strict.*"
on_dead = "blocks"
[[topics]]
on = "days.*"
retry = { rule = "persistent", attempts = 1, then_every = "30d", jitter = 0 }
[[topics]]
on = "days.few"
retry = { attempts = 1 }
[[handlers]]
on = ["plain", "strict.*", "days.*"]
command = ["false"]
[[handlers]]
on = ["own"]
command = ["false"]
retry = { attempts = 4, first = "10ms", cap = "20ms" }
on_dead = "blocks"
[transports.nats]
url = "$POSTHORN_TEST_NATS"
prefix = "$name."
[transports.made]
url = "$POSTHORN_TEST_NATS"
prefix = "$name-made."
declare = true
stream = "$name-made"
subjects = ["$name-made.>"]
[transports.rabbit]
url = "$POSTHORN_TEST_RABBITMQ"
exchange = "$name"
declare = true
queue = "$name"
quorum = false
[[relays]]
on = "patient"
to = "nats"
[[relays]]
on = "brief"
to = "nats"
retry = { attempts = 2, first = "10ms" }
[[relays]]
on = "once"
to = "nats"
unroutable = "fail"
[[relays]]
on = "made"
to = "made"
[[relays]]
on = "rabbit"
to = "rabbit"
END
chmod o-r "$config"
expect 0 serve --config "$config" --check
err_is_empty
start

# dies TOPIC ATTEMPTS BLOCKS: a message of this topic is dead after so many, and its key is blocked.
dies() {
    enqueue --topic "$1" --payload x --key "key-$1"
    until_true state_is "$id" dead
    expect 0 message "$url" "$id" --json
    [[ $(json_value attempts) == "$2" ]] || fail "$1 should be dead after $2 attempts"
    expect 0 dead keys "$url"
    if [[ $3 == yes ]]; then out_has "key-$1"; else out_lacks "key-$1"; fi
}
dies plain 2 no
dies strict.a 2 yes
dies own 4 yes
dies days.few 1 no
dies brief 2 no
expect 0 message "$url" "$id" --json
out_has 'unroutable: no stream takes the subject'
dies once 1 no

# attempted ID: it has failed once, and waits.
attempted() {
    expect 0 message "$url" "$1" --json
    [[ $(json_value state) == retrying && $(json_value errors) -ge 1 ]]
}
enqueue --topic days.many --payload x
days=$id
until_true attempted "$days"
expect 0 why "$url" "$days"
out_matches 'tried again in (29|30)d'
dies patient 2 no

# What is declared is there for the first message.
for each in made rabbit; do
    enqueue --topic "$each" --payload x
    until_true state_is "$id" done
    expect 0 message "$url" "$id" --json
    [[ $(json_value attempts) == 1 ]] || fail "$each should be sent at the first attempt"
done
stop
