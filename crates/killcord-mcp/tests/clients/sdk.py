#!/usr/bin/env python3
"""What the Python SDK of the protocol sees of killcord's server: sdk.py MODE, where MODE is `legacy` (initialize),
`auto` (server/discover, then initialize) or a version that is taken as given, such as `2026-07-28`.

The server's command line is in KILLCORD_MCP_COMMAND. One line for each thing seen; the first that is not as it should
be ends it with status 1. Everything that is started here ends by itself within 50 s."""

import asyncio
import os
import shlex
import sys
import tempfile
import time
import uuid
from importlib.metadata import version

import anyio
import mcp.client.stdio
from mcp import Client, MCPError, StdioServerParameters

TOOLS = ["shell_run", "shell_spawn", "session_write", "session_read", "session_resize", "session_signal",
         "session_kill", "session_list", "server_info"]
MARK = f"KILLCORD_CLIENT_MARK={uuid.uuid4().hex}"
ENV = dict([MARK.split("=")])
# The SDK has a process group ended that does not go by itself; here that is a failure, which it must not hide.
ENDED = []
terminate = mcp.client.stdio._terminate_process_tree


async def told(process):
    ENDED.append(process.pid)
    await terminate(process)


mcp.client.stdio._terminate_process_tree = told


def status(pid):
    """What is behind a process's name in /proc, or None when it is gone or only not yet reaped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields


def started(pid):
    """When a process was started: with its number, this is it and no other."""
    fields = status(pid)
    return fields and int(fields[19])


def above(pid):
    """A process and those it descends from, but for the system's first."""
    line = []
    while pid > 1 and (fields := status(pid)):
        line.append(pid)
        pid = int(fields[1])
    return line


def ours():
    """The server, the commands that were given our mark, and the guards, which are the parents of commands."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as environ:
                if MARK.encode() in environ.read().split(b"\0"):
                    found.update(above(int(name)))
        except OSError:  # It has ended, or is somebody else's.
            pass
    return [(pid, started(pid)) for pid in found - set(above(os.getpid()))]


def living(all):
    return [(pid, when) for pid, when in all if when and started(pid) == when]


def see(what, seen, detail=""):
    if not seen:
        sys.exit(f"not so: {what}: {detail}")
    print(f"  {what}" + (f": {detail}" if detail else ""))


async def within(seconds, condition):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        await asyncio.sleep(0.01)
    return condition()


async def text(client, tool, wrong=False, **arguments):
    result = await client.call_tool(tool, arguments)
    body = result.content[0].text
    if len(result.content) != 1 or bool(result.is_error) != wrong or result.structured_content is not None:
        sys.exit(f"not so: {tool} {arguments}: {result}")
    return body


async def terminal(client):
    """Every tool once, and those of a terminal in earnest."""
    first = await text(client, "shell_spawn", command="bash --norc -i", env=ENV, name="a terminal", cols=80, rows=24,
                       wait={"until": "quiet", "timeout_s": 5})
    session = first.split("|")[0].strip("[ ").split()[1]
    see("shell_spawn", "80x24" in first.splitlines()[0], first.splitlines()[0])
    answer = await text(client, "session_write", session=session, text="echo $((6*7))-$(tput cols)", enter=True,
                        wait={"until": "text", "pattern": "42-80", "timeout_s": 5})
    see("session_write", "matched \"42-80\"" in answer, answer.splitlines()[0])
    for mode in "new", "tail", "screen":
        await text(client, "session_read", session=session, mode=mode)
    answer = await text(client, "session_read", session=session, mode="from", cursor=0)
    see("session_read", "42-80" in answer, answer.splitlines()[0])
    see("session_resize", "100x30" in await text(client, "session_resize", session=session, cols=100, rows=30))
    answer = await text(client, "session_write", session=session, text="echo now $(tput cols)", enter=True,
                        wait={"pattern": "now 100", "timeout_s": 5})
    see("the program sees the new size", "matched" in answer)
    see("session_list", session in await text(client, "session_list"))
    await text(client, "session_signal", session=session, signal="INT")
    see("session_signal", True)
    answer = await text(client, "session_kill", session=session)
    see("session_kill", "nothing of it is left" in answer, answer)
    see("server_info", "killcord" in await text(client, "server_info"))


async def cancelled(client, scratch):
    """A call that is cancelled: what it has started is gone."""
    ids = os.path.join(scratch, "ids")
    command = f"echo $$ >>{ids}; (setsid sh -c 'echo $$ >>{ids}; exec sleep 50' &) ; sleep 50"

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            async def call():
                await client.call_tool("shell_run", {"command": command, "env": ENV})
                sys.exit("not so: a call that was to be cancelled was answered")

            tasks.start_soon(call)
            see("a command with a daemon runs", await within(
                5, lambda: os.path.exists(ids) and len(open(ids, encoding="utf-8").read().split()) == 2))
            pids = [int(pid) for pid in open(ids, encoding="utf-8").read().split()]
            alive = [(pid, started(pid)) for pid in pids]
            see("both of its processes are there", all(when for _, when in alive), str(alive))
            begun = time.monotonic()
            scope.cancel()
    gone = await within(5, lambda: not living(alive))
    see("after the cancel they are gone", gone, f"{time.monotonic() - begun:.2f} s")
    see("the server goes on", "hello" in await text(client, "shell_run", command="echo hello"))


async def main(mode):
    command, *arguments = shlex.split(os.environ["KILLCORD_MCP_COMMAND"])
    print(f"  mcp {version('mcp')}, mode {mode}")
    server = StdioServerParameters(command=command, args=arguments, env=ENV)
    with tempfile.TemporaryDirectory() as scratch:
        async with Client(server, mode=mode, read_timeout_seconds=20) as client:
            see("connected", True, f"{client.protocol_version}, {client.server_info}")
            # A version that is taken as given is not negotiated, so nothing is said about the server.
            if mode in ("legacy", "auto"):
                see("instructions", "shell_run" in (client.instructions or ""))
            tools = (await client.list_tools()).tools
            see("tools", [tool.name for tool in tools] == TOOLS, " ".join(tool.name for tool in tools))
            answer = await text(client, "shell_run", command="echo out; echo err >&2; exit 3")
            see("a non-zero exit is an answer", "[exit 3 in" in answer and "\nout\nerr\n" in answer, repr(answer))
            answer = await text(client, "session_read", wrong=True, session="s99")
            see("an unknown session is an error with a remedy", "sessions:" in answer, answer)
            answer = await text(client, "shell_run", wrong=True, command="true", cwd="/no/such/place")
            see("no such directory is one, too", "/no/such/place" in answer, answer)
            try:
                result = await client.call_tool("no_such_tool", {})
                see("an unknown tool is an error", result.is_error, result.content[0].text)
            except MCPError as e:
                see("an unknown tool is an error", True, f"{e.error.code} {e.error.message}")
            await terminal(client)
            begun = time.monotonic()
            answers = await asyncio.gather(*(text(client, "shell_run", command=f"sleep 1; echo number {n}")
                                             for n in range(8)))
            took = time.monotonic() - begun
            see("eight calls at once", took < 4 and all(f"number {n}" in a for n, a in enumerate(answers)),
                f"{took:.2f} s")
            await cancelled(client, scratch)
            await text(client, "shell_spawn", command="sleep 50", env=ENV, wait={"timeout_s": 0})
            await text(client, "shell_run", command="sleep 50", env=ENV, yield_s=0.1)
            left = ours()
            see("two sessions run at the close", len(left) >= 5, f"{len(left)} processes with the server and guards")
            begun = time.monotonic()
        took = time.monotonic() - begun
        see("the server is gone in less than 1 s, by itself", took < 1 and not ENDED, f"{took:.2f} s {ENDED or ''}")
        see("nothing is left", await within(2, lambda: not living(left) and not ours()), str(living(left) or ""))


asyncio.run(main(sys.argv[1]))
