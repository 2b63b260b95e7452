#!/usr/bin/env python3
"""Reads metrics in the text format of Prometheus from standard input, as its documentation describes
it, and complains about everything that is not so. Prints the number of samples."""
import re
import sys

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}


def wrong(number, line, why):
    sys.exit(f"line {number}: {why}: {line!r}")


def labels_of(number, line, text):
    """`a="b",c="d"` with escapes, as a dict."""
    found, at = {}, 0
    while at < len(text):
        equals = text.index("=", at)
        name = text[at:equals]
        if not LABEL.match(name) or name in found:
            wrong(number, line, f"label {name!r}")
        if text[equals + 1] != '"':
            wrong(number, line, "a label's value is not quoted")
        value, at = "", equals + 2
        while text[at] != '"':
            if text[at] == "\\":
                if text[at + 1] not in '\\"n':
                    wrong(number, line, "an unknown escape")
                value += {"n": "\n"}.get(text[at + 1], text[at + 1])
                at += 2
            else:
                value += text[at]
                at += 1
        found[name] = value
        at += 1
        if at < len(text):
            if text[at] != ",":
                wrong(number, line, "labels are not separated by commas")
            at += 1
    return found


def split(number, line):
    if "{" not in line:
        name, _, rest = line.partition(" ")
        return name, {}, rest
    name, _, rest = line.partition("{")
    quoted = escaped = False
    for at, char in enumerate(rest):
        if escaped:
            escaped = False
        elif quoted and char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif char == "}" and not quoted:
            return name, labels_of(number, line, rest[:at]), rest[at + 1:].strip()
    wrong(number, line, "labels do not end")


def main():
    data = sys.stdin.buffer.read().decode("utf-8")
    if not data.endswith("\n"):
        sys.exit("the last line must end in a line feed")
    types, helps, seen, done, histograms = {}, set(), set(), set(), {}
    family, samples = None, 0
    for number, line in enumerate(data[:-1].split("\n"), 1):
        if line.startswith("# HELP ") or line.startswith("# TYPE "):
            kind, name, text = line[2:6], *line[7:].split(" ", 1)
            if not NAME.match(name):
                wrong(number, line, "a bad name")
            if kind == "HELP":
                if name in helps:
                    wrong(number, line, "a second HELP")
                helps.add(name)
                if family is not None:
                    done.add(family)
                family = name
            else:
                if text not in TYPES or name in types:
                    wrong(number, line, "a bad or second TYPE")
                types[name] = text
            if name in done:
                wrong(number, line, "a family must stand together")
            continue
        if line.startswith("#") or not line:
            wrong(number, line, "neither a comment we write, nor a sample")
        name, labels, value = split(number, line)
        base = name
        if types.get(family) == "histogram":
            base = re.sub(r"_(bucket|sum|count)\Z", "", name)
        if base != family or family not in types:
            wrong(number, line, f"a sample outside of its family {family}")
        float(value)
        key = (name, tuple(sorted(labels.items())))
        if key in seen:
            wrong(number, line, "the same sample twice")
        seen.add(key)
        samples += 1
        if types[family] == "counter":
            if not name.endswith("_total") or float(value) < 0:
                wrong(number, line, "a counter ends in _total, and is not negative")
        if types[family] == "histogram":
            rest = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
            entry = histograms.setdefault((family, rest), {"buckets": [], "count": None, "sum": None})
            if name.endswith("_bucket"):
                entry["buckets"].append((float(labels["le"].replace("+Inf", "inf")), float(value)))
            else:
                entry[name.rsplit("_", 1)[1]] = float(value)
    for key, entry in histograms.items():
        bounds = [bound for bound, _ in entry["buckets"]]
        counts = [count for _, count in entry["buckets"]]
        if bounds != sorted(bounds) or counts != sorted(counts) or bounds[-1] != float("inf"):
            sys.exit(f"{key}: buckets must grow, up to +Inf")
        if entry["count"] != counts[-1] or entry["sum"] is None:
            sys.exit(f"{key}: the count must be that of the last bucket, and there must be a sum")
    if types.keys() != helps:
        sys.exit(f"HELP and TYPE differ: {types.keys() ^ helps}")
    print(samples)


main()
