#!/usr/bin/env python3
"""strangers.py PORT PROCESS: does to a daemon's port what nobody should do, and complains if that costs
more than it may: bytes that are read, memory, files, or time."""
import os
import re
import socket
import sys
import time

PORT, PROCESS = int(sys.argv[1]), sys.argv[2]
MEBIBYTE = 1 << 20


def connect():
    client = socket.create_connection(("127.0.0.1", PORT))
    client.settimeout(30)
    return client


def heard(client):
    """All that is said until the server closes."""
    result = b""
    try:
        while piece := client.recv(65536):
            result += piece
    except ConnectionResetError:
        pass
    return result


def ask(request):
    client = connect()
    client.sendall(request)
    return heard(client)


def memory():
    with open(f"/proc/{PROCESS}/status", encoding="ascii") as status:
        return int(re.search(r"VmHWM:\s*(\d+)", status.read()).group(1)) * 1024


def files():
    return len(os.listdir(f"/proc/{PROCESS}/fd"))


def expect(is_so, what):
    if not is_so:
        sys.exit(f"strangers: {what}")


def endless(what, beginning, piece):
    """A megabyte again and again: it is cut off, and what was read is not kept."""
    before = memory()
    client, total = connect(), 0
    piece *= MEBIBYTE // len(piece)
    try:
        client.sendall(beginning)
        while total < 128 * MEBIBYTE:
            client.sendall(piece)
            total += len(piece)
    except (ConnectionResetError, BrokenPipeError):
        pass
    expect(total < 64 * MEBIBYTE, f"{what}: {total} bytes were taken")
    expect(memory() - before < 16 * MEBIBYTE, f"{what}: took {memory() - before} bytes of memory")


endless("a request line", b"GET /", b"x")
endless("a header", b"GET /metrics HTTP/1.1\r\nX: ", b"x")
endless("headers", b"GET /metrics HTTP/1.1\r\n", b"a: b\r\n")
endless("chunks", b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n")
endless("no length", b"POST /metrics HTTP/1.1\r\n\r\n", b"x")

# Nobody waits for a body that is of no use.
for method in (b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"):
    answer = ask(method + b" /metrics HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789")
    expect(answer.startswith(b"HTTP/1.1 405 "), f"{method} was answered with {answer[:60]}")
    expect(b"Allow: GET, HEAD" in answer, f"{method} is not told what is allowed")
answer = ask(b"HEAD /healthz HTTP/1.1\r\n\r\n")
expect(answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n"), f"HEAD: {answer}")

many = b"GET /metrics HTTP/1.1\r\nRange: bytes=0-" + b",0-" * 2000 + b"\r\n\r\n"
expect(len(ask(many)) < 2 * len(ask(b"GET /metrics HTTP/1.1\r\n\r\n")), "an answer was multiplied")

# Of those who say nothing only so many are kept: sixteen for each thread.
before = files()
idle = [connect() for _ in range(200)]
expect(ask(b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 "), "it is well meanwhile")
expect(files() <= before + 4 * 16, f"{files() - before} files for those who are idle")
for each in idle:
    each.close()

# And they keep nobody from being served, whatever they have said so far: nothing, the beginning of a
# request, or one whose body never comes.
for beginning in (b"", b"GET /metrics HTTP/1.1\r\nX: ", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"):
    idle = [connect() for _ in range(12)]
    for each in idle:
        each.sendall(beginning)
    began = time.monotonic()
    answer = ask(b"GET /metrics HTTP/1.1\r\n\r\n")
    took = time.monotonic() - began
    expect(answer.startswith(b"HTTP/1.1 200 "), f"the one who asks heard {answer[:60]}")
    print(f"a scrape behind 12 who sent {beginning[:20]} took {took:.3f} s")
    expect(took < 1.5, f"who asks behind those who sent {beginning} waited for {took:.1f} s")
    for each in idle:
        each.close()

# A byte now and then does not keep a connection.
client, began = connect(), time.monotonic()
client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
client.settimeout(0.2)
answer = None
while answer is None and time.monotonic() - began < 30:
    try:
        answer = client.recv(65536)
    except TimeoutError:
        client.sendall(b"x")
expect(answer is not None and answer.startswith(b"HTTP/1.1 408 "), f"a drip heard {answer}")
expect(ask(b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 "), "it is well")
