"""Judges the log of a daemon, line by line: log.py text|json ID METRICS < LOG.

Text is `time level message name=value…`; a value with spaces and the like is a JSON string. ID is
the message that log.sh has its handler fail on, METRICS a file with what the daemon said of itself
before it ended."""
import json
import re
import sys

LEVELS = ("debug", "info", "warning", "error")
LINE = re.compile(
    r'(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (debug|info|warning|error) +(.*?)'
    r'((?: [a-z_]+=(?:"(?:[^"\\]|\\.)*"|[^ "=\\]+))*)$')
FACT = re.compile(r' ([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "=\\]+)')


def of_text(line):
    found = LINE.match(line)
    assert found, f"not a line of the log: {line!r}"
    record = {"time": found[1], "level": found[2], "message": found[3]}
    for name, value in FACT.findall(found[4]):
        if value.startswith('"'):
            record[name] = json.loads(value)
        else:
            record[name] = int(value) if value.isdigit() else value
    return record


def of_json(line):
    record = json.loads(line)
    assert list(record)[:3] == ["time", "level", "message"], f"not a line of the log: {line!r}"
    assert record["level"] in LEVELS
    return record


def check(is_true, what):
    if not is_true:
        sys.exit(what)


def check_message(log, topic):
    """What the handler of log.sh says, and how it ends, each once and escaped once."""
    for each in log:
        check((each["topic"], each["store"]) == (topic, "shop"), f"where it belongs: {each}")
    outputs = sorted(each["output"] for each in log if "output" in each)
    check(outputs == sorted(2 * ['say "no"', "\x1b[31mtwice=2", "a\\b"]), f"outputs: {outputs}")
    failures = [each for each in log if each["message"] == "a handler failed"]
    check([each["attempt"] for each in failures] == [1, 2], f"attempts are numbers: {failures}")
    for each in failures:
        check(each["error"] == "exited with 3: a\\b", f"errors are escaped once: {each}")
    deaths = [each for each in log if each["message"].endswith(" is dead")]
    check([(each["level"], each["attempt"]) for each in deaths] == [("warning", 2)],
          f"its death is told once: {deaths}")


def check_counters(log, metrics):
    """Each line is counted; `log` ends where the metrics were asked for."""
    counted = dict(re.findall(r'^posthorn_log_lines_total\{level="(\w+)"\} (\d+)$', metrics, re.M))
    check(sorted(counted) == sorted(LEVELS), f"all levels are counted: {counted}")
    for level in LEVELS:
        lines = sum(each["level"] == level for each in log)
        check(int(counted[level]) == lines, f"{level}: {counted[level]} counted, {lines} logged")


def main():
    form, bad, metrics = sys.argv[1:]
    text = sys.stdin.read()
    check(text.endswith("\n") and "\x1b" not in text, "lines, and nothing that a terminal obeys")
    read = of_json if form == "json" else of_text
    log = [read(line) for line in text.rstrip("\n").split("\n")]
    check_message([each for each in log if each.get("id") == bad], 'bad "one" \\')
    for name in ("process", "dead"):
        of_daemon = [each for each in log if name in each]
        check(len(of_daemon) == 1 and isinstance(of_daemon[0][name], int), f"{name} is a number")
    check(log[-1]["message"] == "ended", "the end is told")
    with open(metrics, encoding="utf-8") as file:
        check_counters(log[:-1], file.read())


main()
