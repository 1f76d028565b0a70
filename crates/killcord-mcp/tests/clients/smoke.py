#!/usr/bin/env python3
"""Whether a coding agent connects to killcord's server: smoke.py claude|codex|gemini DIRECTORY [NODE]

DIRECTORY has the agent as npm installs it; the server's command line is in KILLCORD_MCP_COMMAND. The agent runs with an
empty environment, a home of its own and no network: a network namespace in which not even the loopback is up. Its
configuration is the one that it writes itself, in its own format. What it and the server said is written down between
them, so that what is reported here is what was on the wire. Status 77: this machine cannot do it, and the last line
says why."""

import glob
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

TOOLS = ["shell_run", "shell_spawn", "session_write", "session_read", "session_resize", "session_signal",
         "session_kill", "session_list", "server_info"]
HERE = os.path.dirname(os.path.abspath(__file__))
QUIET = {
    "claude": {"DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
               "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    "codex": {"OTEL_SDK_DISABLED": "true"},
    "gemini": {"GEMINI_TELEMETRY_ENABLED": "false", "GEMINI_CLI_TRUST_WORKSPACE": "true",
               "GEMINI_API_KEY": "none"},
}


def skip(why):
    print(why)
    sys.exit(77)


def without_network():
    for prefix in ["unshare", "-n"], ["unshare", "-r", "-n"]:
        try:
            if subprocess.run([*prefix, "true"], capture_output=True, timeout=10).returncode == 0:
                return prefix
        except FileNotFoundError:
            skip("there is no unshare, so no way to be without a network")
    skip("no network namespace can be had here")


class Agent:
    def __init__(self, name, home, *program):
        self.home = home
        pass_on = {"HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb", "NO_COLOR": "1", **QUIET[name]}
        if name == "codex":
            pass_on["CODEX_HOME"] = f"{home}/.codex"
            os.mkdir(pass_on["CODEX_HOME"])
        variables = [f"{key}={value}" for key, value in pass_on.items()]
        self.program = [*without_network(), "env", "-i", *variables, *program]

    def start(self, *arguments, **streams):
        """Starts it in a process group of its own, which ends with `end`."""
        return subprocess.Popen([*self.program, *arguments], cwd=self.home, text=True, start_new_session=True, **streams)

    @staticmethod
    def end(process):
        """Ends it and its group. It is not reaped before, so that the group's number is nobody else's."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def run(self, *arguments, fails=False, seconds=50):
        """Runs it, and returns all that it printed."""
        with tempfile.TemporaryFile("w+", dir=self.home) as printed:
            process = self.start(*arguments, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT)
            until = time.monotonic() + seconds
            over = None
            while not over and time.monotonic() < until:
                over = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
                time.sleep(0.02)
            self.end(process)
            printed.seek(0)
            text = printed.read().strip()
        if not over or (over.si_status != 0 and not fails):
            sys.exit(f"{text}\n{shlex.join(arguments)}: {over or f'not done after {seconds} s'}")
        return text

    def speak(self, *arguments):
        """Starts it as a server of its own for an editor, and returns how to ask it something."""
        app = self.start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        # What it was started for takes a few seconds; a reader has no limit of its own.
        timer = threading.Timer(50, os.killpg, [app.pid, signal.SIGKILL])
        timer.daemon = True
        timer.start()

        def say(message):
            app.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            app.stdin.flush()

        def ask(number, method, **params):
            say({"id": number, "method": method, "params": params})
            for line in app.stdout:
                try:
                    answer = json.loads(line)
                except ValueError:  # Something that it says to people.
                    continue
                if answer.get("id") == number and "method" not in answer:
                    if "result" not in answer:
                        sys.exit(f"{method}: {answer}")
                    return answer["result"]
            sys.exit(f"{method}: it is gone, or not done after 50 s")

        def leave():
            timer.cancel()
            app.stdin.close()
            until = time.monotonic() + 3
            while time.monotonic() < until and not os.waitid(
                    os.P_PID, app.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                time.sleep(0.02)
            self.end(app)

        return say, ask, leave


class Wire:
    """What was said between the agent and the server."""

    def __init__(self, path):
        self.asked, self.answers, self.servers = [], {}, []
        with open(path, encoding="utf-8") as log:
            for line in log:
                mark, _, rest = line.partition(" ")
                if mark == "=":
                    if not rest.startswith("ended"):
                        self.servers.append(tuple(map(int, rest.split())))
                        self.asked.append([])
                    continue
                message = json.loads(rest)
                if mark == ">":
                    self.asked[-1].append(message)
                elif "id" in message:
                    self.answers[len(self.asked), message["id"]] = message

    def answered(self, method):
        """Requests of a method with their results, over all connections."""
        for number, asked in enumerate(self.asked, 1):
            for message in asked:
                answer = self.answers.get((number, message.get("id")), {})
                if message.get("method") == method and "result" in answer:
                    yield message.get("params", {}), answer["result"]


def started(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def claude(agent, server):
    print(" ", agent.run("--version"))
    agent.run("mcp", "add", "--scope", "user", "killcord", "--", *server)
    listed = agent.run("mcp", "list")
    if "Connected" not in listed:
        sys.exit(f"claude mcp list does not say that it is connected:\n{listed}")
    print("  claude mcp list:", listed.splitlines()[-1].rpartition(" - ")[2])
    # Not logged in, it can ask no model; what it has found by then it says first.
    told = agent.run("--print", "--output-format", "stream-json", "--verbose", "hello", fails=True)
    for line in told.splitlines():
        if line.startswith("{") and (said := json.loads(line)).get("subtype") == "init":
            tools = [tool for tool in said["tools"] if tool.startswith("mcp__killcord__")]
            print("  claude --print:", said["mcp_servers"], len(tools), "tools")
            return
    print("  claude --print has not come so far as to name its tools:", told[-200:])


def codex(agent, server):
    print(" ", agent.run("--version").splitlines()[-1])
    agent.run("mcp", "add", "killcord", "--", *server)
    print("  codex mcp list (it connects to nothing):", agent.run("mcp", "list").splitlines()[-1].split()[-2])
    # What an editor speaks to it; it connects to servers, and no model is needed.
    say, ask, leave = agent.speak("app-server")
    ask(1, "initialize", clientInfo={"name": "killcord-test", "title": "killcord", "version": "1"})
    say({"method": "initialized"})
    found = ask(2, "mcpServerStatus/list")["data"]
    if [one["name"] for one in found] != ["killcord"] or sorted(found[0]["tools"]) != sorted(TOOLS):
        sys.exit(f"codex app-server: {found}")
    print("  codex app-server, mcpServerStatus/list:", len(found[0]["tools"]), "tools")
    thread = ask(3, "thread/start")["thread"]["id"]
    answer = ask(4, "mcpServer/tool/call", threadId=thread, server="killcord", tool="shell_run",
                 arguments={"command": "echo from codex; exit 3"})
    text = answer["content"][0]["text"]
    if "from codex" not in text or answer.get("isError"):
        sys.exit(f"codex app-server: {answer}")
    print("  codex app-server, mcpServer/tool/call:", repr(text))
    leave()


def gemini(agent, server):
    print(" ", agent.run("--version"))
    agent.run("mcp", "add", "--scope", "user", "killcord", *server)
    listed = agent.run("mcp", "list")
    if "Connected" not in listed:
        sys.exit(f"gemini mcp list does not say that it is connected:\n{listed}")
    print("  gemini mcp list:", listed.splitlines()[-1].rpartition(" - ")[2])
    # That much is a ping. As an editor's agent it lists the tools of a new session; its key is never used.
    _, ask, leave = agent.speak("--acp")
    ask(1, "initialize", protocolVersion=1, clientCapabilities={})
    ask(2, "authenticate", methodId="gemini-api-key")
    ask(3, "session/new", cwd=agent.home, mcpServers=[])
    print("  gemini --acp: a session")
    leave()


def main(name, directory, node=None):
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
    modules = os.path.join(directory, "node_modules")
    program = {
        "claude": lambda: [f"{modules}/@anthropic-ai/claude-code-linux-{machine}/claude"],
        "codex": lambda: glob.glob(f"{modules}/@openai/codex-linux-{machine}/vendor/*/bin/codex")
        or glob.glob(f"{modules}/@openai/codex-linux-{machine}/vendor/*/codex/codex"),
        "gemini": lambda: [node, f"{modules}/@google/gemini-cli/bundle/gemini.js"],
    }[name]()
    if not program or not os.path.exists(program[-1]):
        skip(f"{name} has no program for this machine")
    # Not below /tmp, where one of them refuses to write.
    with tempfile.TemporaryDirectory(dir=directory, ignore_cleanup_errors=True) as home:
        log = os.path.join(home, "wire")
        agent = Agent(name, home, *program)
        server = [sys.executable, f"{HERE}/spy.py", log, *shlex.split(os.environ["KILLCORD_MCP_COMMAND"])]
        {"claude": claude, "codex": codex, "gemini": gemini}[name](agent, server)
        if not os.path.exists(log):
            sys.exit("it has not started the server")
        wire = Wire(log)
    for hello in "initialize", "server/discover":
        for params, result in wire.answered(hello):
            about = params.get("protocolVersion") or params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion")
            print(f"  on the wire: {hello} {about} -> {result.get('protocolVersion') or result.get('supportedVersions')}")
    lists = [[tool["name"] for tool in result["tools"]] for _, result in wire.answered("tools/list")]
    print("  on the wire:", len(wire.servers), "connections,", len(lists), "times tools/list")
    for asked in wire.asked:
        print("  on the wire:", ", ".join(message.get("method", "an answer") for message in asked))
    if not lists or any(names != TOOLS for names in lists):
        sys.exit(f"the tools were not listed as they are: {lists}")
    end = time.monotonic() + 3
    while left := [pid for pid, when in wire.servers if started(pid) == when]:
        if time.monotonic() > end:
            sys.exit(f"servers are left: {left}")
        time.sleep(0.01)
    print("  every server is gone")


main(*sys.argv[1:])
