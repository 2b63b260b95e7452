#!/usr/bin/env bash
# What the guide gives to receivers accepts what we sign, and nothing else.
# Proves: TRN-01
set -euo pipefail
guide=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    printf 'failed: %s\n' "$1" >&2
    exit 1
}

# block LANGUAGE: the code of the guide's block in this language
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$guide" | sed '/^```/d'; }

# The example of Standard Webhooks, which the C++ tests sign as well.
secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
other=whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD
id=msg_p5jXN8AQM9LWM0D4loKWxJek
sent=1614265330
signature='v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
printf '%s' '{"test": 2432232314}' >"$scratch/body"
printf '%s' '{"test": 2432232315}' >"$scratch/bent"

block sh >"$scratch/verify.sh"
# shellcheck source=/dev/null
source "$scratch/verify.sh"
verify "$secret" "$id" "$sent" "$signature" "$scratch/body" || fail 'the shell refuses what is good'
verify "$secret" "$id" "$sent" "v1,x $signature" "$scratch/body" || fail 'the shell wants one alone'
verify "$secret" "$id" "$sent" "$signature" "$scratch/bent" && fail 'the shell takes another body'
verify "$other" "$id" "$sent" "$signature" "$scratch/body" && fail 'the shell takes another secret'
verify "$secret" "$id" 1 "$signature" "$scratch/body" && fail 'the shell takes another time'

# A secret can be plain bytes as well; openssl signs with them on its own.
plain='0123456789 plain bytes'
by_plain=v1,$({ printf '%s.%s.' "$id" "$sent" && cat "$scratch/body"; } |
    openssl dgst -sha256 -hmac "$plain" -binary | openssl base64 -A)
verify "$plain" "$id" "$sent" "$by_plain" "$scratch/body" || fail 'the shell refuses plain bytes'
verify "$plain" "$id" "$sent" "$signature" "$scratch/body" && fail 'the shell takes another signature'

block python >"$scratch/receiver.py"
cat >"$scratch/try.py" <<'PYTHON'
import sys

import receiver

secret, other, id, sent, signature, plain, by_plain = sys.argv[1:]
body = b'{"test": 2432232314}'
headers = {"webhook-id": id, "webhook-timestamp": sent, "webhook-signature": signature}


def check(expected, given=headers, content=body, secrets=(secret,), now=int(sent)):
    receiver.time.time = lambda: now
    if receiver.verify(given, content, secrets) != expected:
        sys.exit(f"not {expected}: {given} {content} {secrets} {now}")


check(True)
check(True, secrets=(other, secret))
check(True, given=headers | {"webhook-signature": "v1,x v2,y " + signature})
check(True, given=headers | {"webhook-signature": by_plain}, secrets=(plain,))
check(True, given=headers | {"webhook-signature": by_plain}, secrets=(secret, plain))
check(False, secrets=(plain,))
check(False, secrets=(other,))
check(False, given={})
check(False, given=headers | {"webhook-timestamp": "²"})
check(False, content=b"{}")
check(False, given=headers | {"webhook-id": "another"})
check(False, given=headers | {"webhook-signature": "v1,é"})
check(False, now=int(sent) + 301)
check(False, now=int(sent) - 301)
PYTHON
(cd "$scratch" && python3 try.py "$secret" "$other" "$id" "$sent" "$signature" "$plain" "$by_plain") ||
    fail 'Python disagrees'
