#!/usr/bin/env bash
# Configurations that are wrong: each file of `malformed` says in its first line where, and with
# which key; all of that must be told, at once, and nothing else.
# Proves: OPS-03, F21
source "$(dirname "${BASH_SOURCE[0]}")/library.sh"
unset POSTHORN_TEST_UNSET || true
cd "$here/malformed"
files=0
for file in *.toml; do
    files=$((files + 1))
    read -r -a expected < <(head -n 1 "$file" | cut -c 3-)
    expect 2 serve --config "$file" --check
    out_is ''
    for each in "${expected[@]}"; do
        line=${each%%:*} key=${each#*:}
        pattern="(^|"$'\n'")posthorn: $file:$line:[0-9]+: ${key//[/\\[}"
        pattern=${pattern//]/\\]}
        [[ $err =~ $pattern ]] || fail "$file: line $line and the key '$key' should be named"
    done
    ((${#expected[@]} == $(grep -c '^posthorn: ' <<<"$err"))) ||
        fail "$file: there should be ${#expected[@]} problems, no more and no less"
    # The same for programs.
    expect 2 serve --config "$file" --check --json
    for each in "${expected[@]}"; do
        [[ $err == *"\"line\":${each%%:*},"*"\"key\":\"${each#*:}\""* ]] ||
            fail "$file: JSON should name line ${each%%:*} and the key '${each#*:}'"
    done
    # It is not run either.
    expect 2 serve --config "$file"
done
((files >= 123)) || fail "only $files files were looked at"

# What would be right is said where it can be guessed.
expect 2 serve --config unknown_key.toml
err_has "did you mean 'concurrency'?"
expect 2 serve --config unknown_section.toml
err_has "did you mean 'daemon'?"
expect 2 serve --config daemon_log.toml
err_has "one of text, json; did you mean 'json'?"
expect 2 serve --config transport_scheme.toml
err_has 'did you mean amqp:?'
expect 2 serve --config transport_rediss.toml
err_has 'Redis is not spoken with TLS here'
expect 2 serve --config schedule_store.toml
err_has "there is no store 'shp'; did you mean 'shop'?"
expect 2 serve --config kafka_setting_reserved.toml
err_has "the setting 'acks' cannot be set"
expect 2 serve --config retention_inbox_and_endpoint.toml
err_has 'should be at least 10m'
expect 2 serve --config duplicate_key.toml
err_has "'name'"
expect 2 serve --config daemon_listen_public.toml
err_has 'listen_public = true'

expect 2 serve --config retry_rules.toml
err_has "retry.rule: is 'exponentail'; it should be one of exponential, persistent; did you mean 'exponential'?"
err_has 'retry.then_every: belongs to the rule persistent'
err_has 'retry.jitter: should be a number from 0 to 1'
err_has "did you mean 'blocks'?"
expect 2 serve --config retry_twice.toml
err_has 'daemon.backoff: cannot stand beside retry: write it there, as first'
expect 2 serve --config handler_command_one_string.toml
err_has 'write the program and its arguments as a list, such as ["python3", "order.py", "--quiet"]'
expect 2 serve --config schedule_topic_of_inbox.toml
err_has 'is reserved for messages from outside'

expect 2 serve --config nats_ca_file.toml
err_has 'cannot be read: No such file or directory'
printf '[[stores]]\nurl = "sqlite:x.db"\n[transports.t]\nurl = "nats://localhost"\nca_file = "/"\n' >"$scratch/folder-as-file.toml"
expect 2 serve --config "$scratch/folder-as-file.toml" --check
err_has "ca_file: the file '/' cannot be read: it is a directory"
expect 2 serve --config relay_unroutable.toml
err_has 'relays[0].retry: is a string; it should be a table: retry = { … }'

# A file that gives it no work is valid, and most likely not what was meant.
printf '[[stores]]\nurl = "sqlite:x.db"\n' >"$scratch/idle.toml"
expect 0 serve --config "$scratch/idle.toml" --check
err_has 'gives the daemon no work: there are no [[handlers]], [[relays]], [[feeds]], [[endpoints]]'
printf '[[schedules]]\nname = "n"\ntopic = "t"\nevery = "1h"\n' >>"$scratch/idle.toml"
expect 0 serve --config "$scratch/idle.toml" --check
err_is_empty

expect 2 serve --config "$scratch/none.toml"
err_has 'none.toml: cannot be read: No such file or directory'
mkdir "$scratch/folder.toml"
expect 2 serve --config "$scratch/folder.toml" --check
err_has 'folder.toml: cannot be read: it is a directory'
mkfifo "$scratch/pipe.toml"
expect 2 serve --config "$scratch/pipe.toml" --check
err_has 'pipe.toml: cannot be read: it is not a regular file'
# A key so deep that taking it apart would need more stack than there is.
{ printf '[[stores]]\nurl = "sqlite:x.db"\n\na'; printf '.a%.0s' {1..100000}; printf ' = 1\n'; } >"$scratch/deep.toml"
expect 2 serve --config "$scratch/deep.toml" --check
err_has 'deep.toml:4:'
err_has 'a key may have 256 parts at most'
expect 2 serve
err_has '--config is required'
echo "$files files"
