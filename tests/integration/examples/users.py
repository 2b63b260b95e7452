# A client of example_users that clicks twice, retries whatever fails, and kills the service.
# usage: users.py FOLDER URL PROGRAM POSTHORN DUMP…     (users.sh prepares the database)
import hashlib
import http.client
import json
import pathlib
import random
import re
import socket
import subprocess
import sys
import threading
import time
import uuid

folder, url, program, posthorn, *dump = sys.argv[1:]
folder = pathlib.Path(folder)
cut_off = []  # requests whose answer was lost
patience = 120  # seconds for whatever must happen, on a machine that has much else to do


def check(condition, words):
    if not condition:
        raise AssertionError(words)


def wait_until(look, words):
    """Returns what `look` finds, once it finds something."""
    end = time.monotonic() + patience
    while not (found := look()):
        check(time.monotonic() < end, f"waited in vain: {words}")
        time.sleep(0.02)
    return found


class Service:
    """The program, its configuration, and the folders into which it sends."""

    def __init__(self):
        self.configure()
        self.start()

    def configure(self, otp_seconds=600, port=0):
        (folder / "users.toml").write_text(f"""
            [service]
            port = {port}
            store = "{url}"
            mail_folder = "{folder}/mail"
            directory_folder = "{folder}/directory"
            [outbox_processor]
            polling_interval_seconds = 1
            lease_seconds = 2
            [idempotency]
            lock_seconds = 2
            [otp]
            ttl_seconds = {otp_seconds}
            """)

    def start(self):
        with open(folder / "log", "a") as log:
            self.process = subprocess.Popen([program, folder / "users.toml"], text=True,
                                            stdout=subprocess.PIPE, stderr=log)
        said = self.process.stdout.readline()
        found = re.fullmatch(r"listening on http://127\.0\.0\.1:(\d+)\n", said)
        check(found, f"it said {said!r} at its start")
        self.port = int(found[1])

    def end(self, how):
        how()
        status = self.process.wait(patience)
        self.process.stdout.close()
        return status

    def restart(self, **settings):
        check(self.end(self.process.terminate) == 0, "it does not end well")
        self.configure(**settings)
        self.start()


def ask(method, path, body=None, key=None):
    """One request: its status, its JSON, and its headers."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=patience)
    try:
        headers = {"Idempotency-Key": key} if key else {}
        text = body if isinstance(body, (str, type(None))) else json.dumps(body)
        connection.request(method, path, text, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers
    finally:
        connection.close()


def insist(method, path, body=None, key=None):
    """The same request until it is answered: as clients do who were told nothing, or to wait."""

    def look():
        try:
            answer = ask(method, path, body, key)
        except ConnectionRefusedError:
            return None  # it is down
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            cut_off.append(path)  # killed meanwhile
            return None
        return None if answer[0] in (409, 503) else answer

    return wait_until(look, f"an answer to {method} {path}")


def register(email, key=None, name="Ada Ünal"):
    return insist("POST", "/users", {"email": email, "name": name}, key or str(uuid.uuid4()))


def verify(email, code, key=None):
    return insist("POST", "/users/verify", {"email": email, "code": code}, key or str(uuid.uuid4()))


def wait_for_state(user, state):
    wait_until(lambda: insist("GET", f"/users/{user}")[1]["state"] == state, f"{user} to be {state}")


def mails_to(email):
    """By the names of their files."""
    found = {}
    for each in (folder / "mail").glob("*.eml"):
        text = each.read_text()
        if f"To: {email}\n" in text:
            found[each.name] = re.search(r"password is ([0-9A-Z]{10})\.", text)[1]
    return found


def only_code(email):
    mails = mails_to(email)
    check(len(mails) == 1, f"{len(mails)} e-mails to {email}")
    return next(iter(mails.values()))


def all_tables():
    """Posthorn's, too. What they hold as bytes is hexadecimal there."""
    return subprocess.check_output(dump).decode(errors="replace")


def holds(text, what):
    lower = what.encode().hex()
    return any(form in text for form in (what, lower, lower.upper()))


def check_secret(codes):
    log, text = (folder / "log").read_text(), all_tables()
    for code in codes:
        check(not holds(text, code), "a password is in the database")
        check(not holds(log, code), "a password is in the log")
    check(holds(text, "UserRegistrationRequested") and "POST /users 201" in log, "that was not all")
    return text


def together(*functions):
    """All at the same time; the results in their order."""
    results = [None] * len(functions)
    ready = threading.Barrier(len(functions))

    def run(i):
        ready.wait()
        results[i] = functions[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return results


def fields(answer):
    check(answer[0] == 422, f"refused with {answer[0]}: {answer[1]}")
    return [each["field"] for each in answer[1].get("problems", [])]


def refusals_name_every_field():
    check(fields(ask("POST", "/users", {})) == ["idempotency_key", "email", "name"], "not every field")
    nil = "00000000-0000-0000-0000-000000000000"
    body = {"email": "no address", "name": "line\nbreak"}
    check(fields(ask("POST", "/users", body, nil)) == ["idempotency_key", "email", "name"], "bad values")
    body = {"email": 7, "code": None}
    check(fields(ask("POST", "/users/verify", body, "7")) == ["idempotency_key", "email", "code"], "verify")
    for bad in ("", "[]", '{"email":', "[" * 60_000):
        check(ask("POST", "/users", bad, str(uuid.uuid4()))[0] == 400, f"not refused: {bad[:20]}")
    check(ask("GET", f"/users/{uuid.uuid4()}")[0] == 404, "somebody is there")


def one_user_from_beginning_to_end():
    key = str(uuid.uuid4())
    status, body, headers = register("Ada@Example.org", key)
    check(status == 201 and "Idempotent-Replayed" not in headers, f"{status} {body}")
    ada = body["id"]
    status, body, headers = register("ada@example.org", key)
    check((status, body) == (201, {"id": ada}) and headers["Idempotent-Replayed"], "another answer")
    other = register("eve@example.org", key)
    check(fields(other) == [] and "another request" in other[1]["error"], f"{other[1]}")
    check(fields(register("ada@example.org")) == ["email"], "registered twice")

    wait_for_state(ada, "invited")
    code = only_code("ada@example.org")
    text = check_secret([code])
    check(hashlib.sha256(f"{ada}:{code}".encode()).hexdigest() in text, "its hash is not stored")
    check("@example.org" in text and "eve@" not in text, "whom it refused is stored")
    wrong = ("1" if code[0] == "0" else "0") + code[1:]
    check(fields(verify("ada@example.org", wrong)) == ["code"], "a wrong code")
    check(fields(verify("eve@example.org", code)) == ["code"], "an unknown address")
    check(verify("ada@example.org", code, key)[:2] == (200, {"id": ada}), "the key of another command")
    status, body, headers = verify("ada@example.org", code, key)
    check((status, body) == (200, {"id": ada}) and headers["Idempotent-Replayed"], "another answer")
    check(fields(verify("ada@example.org", code)) == ["code"], "used twice")
    wait_for_state(ada, "synced")
    entry = json.loads((folder / "directory" / f"{ada}.json").read_text())
    check(entry == {"id": ada, "email": "ada@example.org", "name": "Ada Ünal"}, f"{entry}")
    return {"ada@example.org": ada}


def clicks_at_the_same_time():
    users = {}
    for count in (2, 8):  # a double click, then many clients with one key
        email, key = f"click{count}@example.org", str(uuid.uuid4())
        answers = together(*[lambda: register(email, key)] * count)
        check(all(each[0] == 201 for each in answers), f"{[each[:2] for each in answers]}")
        check(len({each[1]["id"] for each in answers}) == 1, "two users")
        users[email] = answers[0][1]["id"]

    # One address, eight keys: seven transactions are rolled back, and nothing is heard of them.
    answers = together(*[lambda: register("race@example.org")] * 8)
    check(sorted(each[0] for each in answers) == [201] + [422] * 7, f"{[each[0] for each in answers]}")
    users["race@example.org"] = next(each[1]["id"] for each in answers if each[0] == 201)
    for email, user in users.items():
        wait_for_state(user, "invited")
        code = only_code(email)
        keys = [str(uuid.uuid4()) for _ in range(4)]
        answers = together(*[lambda key=key: verify(email, code, key) for key in keys])
        check(sorted(each[0] for each in answers) == [200, 422, 422, 422], "verified twice")
    return users


def passwords_expire():
    service.restart(otp_seconds=1)
    late = register("late@example.org")[1]["id"]
    wait_for_state(late, "invited")
    code = only_code("late@example.org")
    sent = max(each.stat().st_mtime for each in (folder / "mail").glob("*.eml"))
    wait_until(lambda: time.time() > sent + 1.5, "the password to expire")
    check(fields(verify("late@example.org", code)) == ["code"], "an expired password is taken")
    service.restart()
    check(register("late@example.org")[:2] == (201, {"id": late}), "cannot be registered again")
    wait_for_state(late, "invited")
    mails = mails_to("late@example.org")
    check(len(mails) == 2, "no second e-mail")
    check(fields(verify("late@example.org", code)) == ["code"], "the first password is taken")
    new = next(each for each in mails.values() if each != code)
    check(verify("late@example.org", new)[0] == 200, "the second password is not taken")
    return {"late@example.org": late}


def kills(rounds=8, clients=6):
    """Clients that want users, whatever happens; a service that is killed again and again."""
    # A port that no other service can get while this one is down: nobody is asked by mistake.
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    service.restart(port=reserved.getsockname()[1])

    users, going_on, failures = {}, threading.Event(), []
    going_on.set()

    def one_user(email):
        key = str(uuid.uuid4())
        status, body, _ = register(email, key)
        check(status == 201, f"{email}: {status} {body}")
        wait_for_state(body["id"], "invited")
        again = str(uuid.uuid4())
        status, answer, _ = verify(email, only_code(email), again)
        check((status, answer) == (200, body), f"{email}: {status} {answer}")
        check(register(email, key)[:2] == (201, body), f"{email}: another answer")
        users[email] = body["id"]

    def client(which):
        number = 0
        try:
            while going_on.is_set() or number < 2:
                number += 1
                one_user(f"client{which}.{number}@example.org")
        except Exception as failure:  # shown by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for each in threads:
        each.start()
    for _ in range(rounds):
        time.sleep(random.uniform(0.05, 0.7))  # chance decides what it is doing then
        service.end(service.process.kill)
        service.start()
    going_on.clear()
    for each in threads:
        each.join()
    if failures:
        raise failures[0]
    return users


def events(topic):
    found = json.loads(subprocess.check_output(
        [posthorn, "messages", url, "--topic", topic, "--limit", "10000", "--json"]))
    return found["messages"]


def nothing_is_lost_and_nothing_doubled(users):
    for each in users.values():
        wait_for_state(each, "synced")
    text = all_tables()
    found = set(re.findall(r"[-a-z0-9.]+@example\.org", text))
    check(found == set(users), f"users that nobody asked for: {found ^ set(users)}")
    check(len(set(users.values())) == len(users), "an id twice")

    requests, verified = events("UserRegistrationRequested"), events("UserVerified")
    check(len(requests) == len(users) + 1, f"{len(requests)} registrations of {len(users)} users")
    check(len(verified) == len(users), f"{len(verified)} verifications of {len(users)} users")
    wait_until(lambda: all(each["state"] == "done" for topic in ("UserRegistrationRequested", "UserVerified")
                           for each in events(topic)), "every event to be done")
    mails = {each.stem for each in (folder / "mail").glob("*.eml")}
    check(mails == {each["id"] for each in requests}, "an e-mail without its event, or none for one")
    check({each.stem for each in (folder / "directory").glob("*.json")} == set(users.values()), "not synced")


def passwords_are_secret(users):
    codes = [code for email in users for code in mails_to(email).values()]
    check(len(codes) == len(set(codes)) == len(users) + 1, "a password twice")
    check_secret(codes)


def nobody_else_can_connect():
    listening = [each.split() for each in open(f"/proc/{service.process.pid}/net/tcp")]
    addresses = [each[1] for each in listening if each[3] == "0A" and each[1].endswith(f":{service.port:04X}")]
    check(addresses == [f"0100007F:{service.port:04X}"], f"it listens on {addresses}")


def configuration_is_checked():
    file = folder / "bad.toml"
    file.write_text('[service]\nport = "many"\n\n[otp]\nttl_seconds = 0\nlength = 4\n')
    ran = subprocess.run([program, file], text=True, capture_output=True)
    check(ran.returncode == 1, "a bad configuration is taken")
    for words in (":2: service.port must be a whole number from 0 to 65535",
                  ":5: otp.ttl_seconds must be a whole number from 1 to 86400",
                  ":6: there is no setting otp.length"):
        check(str(file) + words in ran.stderr, f"{words!r} is not in {ran.stderr!r}")
    file.write_text("[service]\nport = \n")
    ran = subprocess.run([program, file], text=True, capture_output=True)
    check(ran.returncode == 1 and f"{file}:2: " in ran.stderr, ran.stderr)
    ran = subprocess.run([program, folder / "none.toml"], text=True, capture_output=True)
    check(ran.returncode == 1 and f"{folder}/none.toml: " in ran.stderr, ran.stderr)


configuration_is_checked()
service = Service()
try:
    start = time.monotonic()

    def tell(words):
        print(f"{time.monotonic() - start:5.1f} s  {words}", flush=True)

    nobody_else_can_connect()
    refusals_name_every_field()
    users = one_user_from_beginning_to_end()
    users |= clicks_at_the_same_time()
    tell("keys answer the same, refusals name every field")
    users |= passwords_expire()
    tell("passwords expire")
    users |= kills()
    tell(f"clients have what they asked for; {len(cut_off)} answers were lost")
    nothing_is_lost_and_nothing_doubled(users)
    passwords_are_secret(users)
    check(service.end(service.process.terminate) == 0, "it does not end well")
    tell(f"{len(users)} users: each once, with its events, and no password kept")
except BaseException:
    print((folder / "log").read_text()[-4000:], file=sys.stderr)
    raise
finally:
    if service.process.poll() is None:
        service.process.kill()
