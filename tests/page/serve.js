/* Starts `tuffet serve` with a model of random weights, for tests in node. */
'use strict';
const {spawn, spawnSync} = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

/* A template that shows tools and calls in the format of Hermes. */
const HERMES = '{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{% for m in messages %}' +
    '{{ "<|" + m.role + "|>\\n" + m.content }}{% for c in m.tool_calls %}<tool_call>' +
    '{{ c.function.name }} {{ c.function.arguments | tojson }} {{ c.id }}{% endfor %}' +
    '{{ "\\n" }}{% endfor %}{{ "<|assistant|>\\n" }}';

/* Writes a model. settings: as toy_main.c has them. */
function toy(program, file, settings = {}) {
    const all = {template: HERMES, endless: 1, ctx: 2000, ...settings};
    const done = spawnSync(program, ['write', file, ...Object.entries(all).map(([k, v]) => `${k}=${v}`)],
        {encoding: 'utf8'});
    if (done.status !== 0)
        throw new Error(`${program}: ${done.stderr}`);
    return file;
}

/* A running server: {url, child, log(), stop()}. */
async function serve(program, toyProgram, {settings = {}, args = []} = {}) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tuffet-'));
    const model = toy(toyProgram, path.join(folder, 'toy.gguf'), settings);
    const child = spawn(program, ['serve', model, '--port=0', ...args], {stdio: ['ignore', 'pipe', 'pipe']});
    const kill = () => child.kill('SIGKILL');
    process.on('exit', kill);
    let log = '';
    const stop = async () => {
        const ended = new Promise(done => child.once('exit', (code, signal) => done(signal ?? code)));
        if (child.exitCode === null && child.signalCode === null) {
            child.kill('SIGTERM');
            await ended;
        }
        process.removeListener('exit', kill);
        fs.rmSync(folder, {recursive: true});
        return child.exitCode;
    };
    const url = await new Promise((done, failed) => {
        const read = data => {
            log += data;
            const found = /http:\/\/[\d.]+:\d+/.exec(log);
            if (found)
                done(found[0]);
        };
        child.stdout.on('data', read);
        child.stderr.on('data', read);
        child.once('exit', code => failed(new Error(`the server ended with ${code}: ${log}`)));
    });
    return {url, child, log: () => log, stop};
}

module.exports = {serve, toy, HERMES};
