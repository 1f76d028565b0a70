// What the TypeScript SDKs of the protocol see of killcord's server:
//
//   node sdk.mjs DIRECTORY MODE     MODE is legacy, auto or a version; version 1 of the SDK knows legacy alone
//
// DIRECTORY has the installed SDK, of version 1 or 2. The server's command line is in KILLCORD_MCP_COMMAND. One line
// for each thing seen; the first that is not as it should be ends it with status 1. Everything that is started here
// ends by itself within 50 s.

import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const TOOLS = ['shell_run', 'shell_spawn', 'session_write', 'session_read', 'session_resize', 'session_signal',
    'session_kill', 'session_list', 'server_info'];
const MARK = { KILLCORD_CLIENT_MARK: randomUUID() };

const [directory, mode] = process.argv.slice(2);
const require = createRequire(join(directory, 'package.json'));
const first = existsSync(join(directory, 'node_modules/@modelcontextprotocol/sdk'));
const name = first ? '@modelcontextprotocol/sdk' : '@modelcontextprotocol/client';
const { Client } = require(first ? `${name}/client/index.js` : name);
const { StdioClientTransport } = require(first ? `${name}/client/stdio.js` : `${name}/stdio`);
const { version } = JSON.parse(readFileSync(join(directory, 'node_modules', name, 'package.json')));

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const words = (file) => (existsSync(file) ? readFileSync(file, 'utf8').split(/\s+/).filter(Boolean) : []);

function see(what, seen, detail = '') {
    if (!seen) {
        console.log(`not so: ${what}: ${detail}`);
        process.exit(1);
    }
    console.log(`  ${what}${detail === '' ? '' : `: ${detail}`}`);
}

// The fields behind a process's name, or nothing when it is gone or only not yet reaped.
function fields(pid) {
    try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        const all = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        return 'ZX'.includes(all[0]) ? undefined : all;
    } catch {
        return undefined;
    }
}
const started = (pid) => fields(pid)?.[19];

// A process and those it descends from, but for the system's first.
function above(pid) {
    const parent = fields(pid)?.[1];
    return parent === undefined || pid === '1' ? [] : [pid, ...above(parent)];
}

// The server, the commands that were given our mark, and the guards, which are the parents of commands.
function ours() {
    const marked = (pid) => {
        try {
            return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(MARK.KILLCORD_CLIENT_MARK);
        } catch {
            return false;
        }
    };
    const pids = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && marked(entry));
    const all = new Set(pids.flatMap(above));
    for (const pid of above(String(process.pid))) all.delete(pid);
    return [...all].map((pid) => [pid, started(pid)]).filter(([, when]) => when);
}
const living = (all) => all.filter(([pid, when]) => started(pid) === when);

async function within(ms, condition) {
    const end = performance.now() + ms;
    while (!condition()) {
        if (performance.now() > end) return false;
        await sleep(10);
    }
    return true;
}

const [command, ...args] = process.env.KILLCORD_MCP_COMMAND.split(' ');
const transport = new StdioClientTransport({ command, args, env: MARK });
const negotiation = mode === 'legacy' || mode === 'auto' ? mode : { pin: mode };
const client = new Client(
    { name: 'killcord-test', version: '1' },
    first ? {} : { versionNegotiation: { mode: negotiation } },
);
client.onerror = (e) => see('no error of the protocol', false, e);

const call = (tool, given, options) => client.callTool(
    { name: tool, arguments: given }, ...(first ? [undefined, options] : [options]));

async function text(tool, given = {}, wrong = false) {
    const result = await call(tool, given);
    const plain = result.content.length === 1 && result.structuredContent === undefined;
    if (!plain || Boolean(result.isError) !== wrong) see(`${tool} ${JSON.stringify(given)}`, false, JSON.stringify(result));
    return result.content[0].text;
}
const head = (answer) => answer.split('\n')[0];

// Every tool once, and those of a terminal in earnest.
async function terminal() {
    const opened = await text('shell_spawn', {
        command: 'bash --norc -i', env: MARK, name: 'a terminal', cols: 80, rows: 24,
        wait: { until: 'quiet', timeout_s: 5 },
    });
    const session = head(opened).match(/session (\w+)/)[1];
    see('shell_spawn', head(opened).includes('80x24'), head(opened));
    const typed = await text('session_write', {
        session, text: 'echo $((6*7))-$(tput cols)', enter: true,
        wait: { until: 'text', pattern: '42-80', timeout_s: 5 },
    });
    see('session_write', typed.includes('matched "42-80"'), head(typed));
    for (const how of ['new', 'tail', 'screen']) await text('session_read', { session, mode: how });
    const read = await text('session_read', { session, mode: 'from', cursor: 0 });
    see('session_read', read.includes('42-80'), head(read));
    see('session_resize', (await text('session_resize', { session, cols: 100, rows: 30 })).includes('100x30'));
    see('session_list', (await text('session_list')).includes(session));
    await text('session_signal', { session, signal: 'INT' });
    const killed = await text('session_kill', { session });
    see('session_kill', killed.includes('nothing of it is left'), killed);
    see('server_info', (await text('server_info')).includes('killcord'));
}

// A call that is cancelled: what it has started is gone.
async function cancelled(scratch) {
    const ids = join(scratch, 'ids');
    const stop = new AbortController();
    const running = call('shell_run', {
        command: `echo $$ >>${ids}; (setsid sh -c 'echo $$ >>${ids}; exec sleep 50' &) ; sleep 50`, env: MARK,
    }, { signal: stop.signal }).then(() => 'answered', (e) => `refused: ${e.message}`);
    see('a command with a daemon runs', await within(5000, () => words(ids).length === 2));
    const alive = words(ids).map((pid) => [pid, started(pid)]);
    see('both of its processes are there', alive.every(([, when]) => when), alive.join(' '));
    const begun = performance.now();
    stop.abort('no longer wanted');
    const said = await running;
    see('the cancelled call is not answered', said !== 'answered', said);
    see('after the cancel they are gone', await within(5000, () => living(alive).length === 0),
        `${Math.round(performance.now() - begun)} ms`);
    see('the server goes on', (await text('shell_run', { command: 'echo hello' })).includes('hello'));
}

const scratch = mkdtempSync(join(tmpdir(), 'killcord-client-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
console.log(`  ${name} ${version}, mode ${mode}, node ${process.version}`);
await client.connect(transport);
const server = transport.pid;
const negotiated = client.getNegotiatedProtocolVersion?.() ?? 'its own version';
see('connected', true, `${negotiated}, ${JSON.stringify(client.getServerVersion())}`);
see('instructions', client.getInstructions()?.includes('shell_run'));
const { tools } = await client.listTools();
see('tools', JSON.stringify(tools.map((tool) => tool.name)) === JSON.stringify(TOOLS), tools.length);
const three = await text('shell_run', { command: 'echo out; echo err >&2; exit 3' });
see('a non-zero exit is an answer', three.includes('[exit 3 in') && three.includes('\nout\nerr\n'), JSON.stringify(three));
const unknown = await text('session_read', { session: 's99' }, true);
see('an unknown session is an error with a remedy', unknown.includes('sessions:'), unknown);
const nowhere = await text('shell_run', { command: 'true', cwd: '/no/such/place' }, true);
see('no such directory is one, too', nowhere.includes('/no/such/place'), nowhere);
const nothing = await call('no_such_tool', {}).then((r) => r.isError && r.content[0].text, (e) => e.message);
see('an unknown tool is an error', nothing, nothing);
await terminal();
let begun = performance.now();
const numbers = [...Array(8).keys()];
const answers = await Promise.all(numbers.map((n) => text('shell_run', { command: `sleep 1; echo number ${n}` })));
const took = performance.now() - begun;
see('eight calls at once', took < 4000 && numbers.every((n) => answers[n].includes(`number ${n}`)), `${Math.round(took)} ms`);
await cancelled(scratch);
await text('shell_spawn', { command: 'sleep 50', env: MARK, wait: { timeout_s: 0 } });
await text('shell_run', { command: 'sleep 50', env: MARK, yield_s: 0.1 });
const left = ours();
see('two sessions run at the close', left.length >= 5, `${left.length} processes with the server and guards`);
begun = performance.now();
await client.close();
const closed = performance.now() - begun;
// The SDK waits for 2 s before it sends a signal, so less than that is by itself.
see('the server is gone in less than 1 s, by itself', closed < 1000 && !started(server), `${Math.round(closed)} ms`);
see('nothing is left', await within(2000, () => living(left).length === 0 && ours().length === 0),
    living(left).join(' '));
