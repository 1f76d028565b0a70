#!/usr/bin/env python3
"""Stands between a client and the server and writes down what they say: spy.py LOG COMMAND...

One line of LOG is a direction, `>` to the server or `<` from it, and one line of the protocol; `=` is about the server's
process. The client's end of input is the server's; if this is killed, the server's input and output end as well."""

import os
import subprocess
import sys
import threading

log = open(sys.argv[1], "ab", buffering=0)
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
with open(f"/proc/{server.pid}/stat", encoding="utf-8") as stat:
    log.write(f"= {server.pid} {stat.read().rpartition(')')[2].split()[19]}\n".encode())


def pump(mark, source, sink):
    try:
        for line in source:
            log.write(mark + b" " + line)
            sink.write(line)
            sink.flush()
    except BrokenPipeError:
        pass
    sink.close()


threading.Thread(target=pump, args=(b">", sys.stdin.buffer, server.stdin), daemon=True).start()
pump(b"<", server.stdout, sys.stdout.buffer)
log.write(f"= ended {server.wait()}\n".encode())
# The other thread may wait for input that does not come.
os._exit(0)
