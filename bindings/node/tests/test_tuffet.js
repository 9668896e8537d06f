/*
 * The package for Node.js over the C libraries: node --expose-gc test_tuffet.js TUFFET TOY
 *
 * TUFFET is the program; its texts must be the same. TOY writes random models, and computes with
 * an oracle. TUFFET_ADDON names the addon.
 */
'use strict';
const assert = require('node:assert');
const {execFileSync, spawnSync} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {after, test} = require('node:test');
const {pathToFileURL} = require('node:url');
const {Worker} = require('node:worker_threads');
const tuffet = require('..');

const [TUFFET, TOY] = process.argv.slice(2).map(name => path.resolve(name));
const TEMPLATE = "{% for m in messages %}{{ '<s>' + m.role + ': ' + m.content }}{% endfor %}" +
    "{% if thinking %}{{ 'hmm' }}{% endif %}{{ ' assistant:' }}";
const PROMPT = 'once upon a time';
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tuffet-node-'));
after(() => fs.rmSync(folder, {recursive: true}));

function toy(name, ...settings) {
    const file = path.join(folder, `${name}.gguf`);
    execFileSync(TOY, ['write', file, ...settings]);
    return file;
}

const FILE = toy('toy', 'endless=1', `template=${TEMPLATE}`);
const ENDING = toy('ending');
const LONG = toy('long', 'endless=1', 'ctx=8192');
const LONG_PROMPT = Int32Array.from({length: 5000}, (_, i) => 3 + i % 200);

const open = (file = FILE, options) => tuffet.Model.open(file, options);

/* The text of `tuffet run`, without the newline that it adds. */
const program = (...args) =>
    execFileSync(TUFFET, ['run', FILE, '-p', PROMPT, ...args], {encoding: 'utf8'}).trim();

async function textOf(pieces) {
    let text = '';
    for await (const piece of pieces)
        text += piece;
    return text;
}

/* What is called fails, now or by its promise, with one line that `says` matches. */
async function fails(call, code, says) {
    await assert.rejects(async () => call(), error => {
        assert(error instanceof Error);
        assert.strictEqual(error.code, code, error.stack);
        assert.match(error.message, says);
        assert(!error.message.includes('\n'));
        return true;
    });
}

test('the text of the program', async () => {
    const session = (await open()).session();
    for (const [options, args] of [
        [{}, ['--temp=0']],
        [{temperature: 1.5, seed: 7},
            ['--temp=1.5', '--seed=7', '--top-k=0', '--top-p=1', '--min-p=0']],
        [{temperature: 1.5, seed: 8n, topK: 5, minP: 0.01, topP: 0.9, repeatPenalty: 1.3},
            ['--temp=1.5', '--seed=8', '--top-k=5', '--min-p=0.01', '--top-p=0.9',
                '--repeat-penalty=1.3']]]) {
        const text = await textOf(session.generate(PROMPT, {maxTokens: 20, ...options}));
        assert.strictEqual(text.trim(), program('-n', '20', ...args));
        assert(text);
        assert.strictEqual(session.stopped, 'length');
    }
    const any = () => textOf(session.generate(PROMPT, {maxTokens: 20, temperature: 9}));
    assert.notStrictEqual(await any(), await any()); // seeds of their own
});

test('models say what the program says', async () => {
    const model = await open();
    const said = JSON.parse(execFileSync(TUFFET, ['inspect', FILE, '--json'])).values;
    const {arch, nEmbd, nLayer, nCtx, weights, prefixBos} = model.info;
    assert.deepStrictEqual([arch, nEmbd, nLayer, nCtx],
        ['llama', said['llama.embedding_length'], said['llama.block_count'],
            said['llama.context_length']]);
    assert.deepStrictEqual([weights, prefixBos], ['f32', false]);
    assert.deepStrictEqual(model.prefixes, []);
    assert.strictEqual(model.chatTemplate, TEMPLATE);
    assert.strictEqual((await open(ENDING)).chatTemplate, null);
});

test('tokens', async () => {
    const model = await open(ENDING), ids = model.tokenize(PROMPT);
    assert(ids instanceof Int32Array);
    assert.strictEqual(ids[0], model.bos);
    assert.deepStrictEqual(model.tokenize(PROMPT, {bos: false}), ids.slice(1));
    assert.strictEqual(model.detokenize(ids), PROMPT);
    assert.strictEqual(model.detokenize(ids.slice(1), {goesOn: true}), ' ' + PROMPT);
    assert(model.tokenize('a</s>', {special: true}).includes(model.eos));
    assert(!model.tokenize('a</s>').includes(model.eos));
    assert(model.ends(model.eos) && !model.ends(ids[1]));
    assert.strictEqual(Buffer.from(model.tokenBytes(model.eos, {special: true})).toString(),
        '</s>');
    assert.strictEqual(model.tokenBytes(model.eos).length, 0);
    const long = 'word '.repeat(5000);
    assert.strictEqual(model.detokenize(model.tokenize(long)), long);
    await fails(() => model.tokenBytes(1e6), 'TFT_ERR_ARG', /1000000 is not a token/);
    await fails(() => model.detokenize([-1]), 'TFT_ERR_ARG', /a token must be/);
    await fails(() => model.tokenize(5), 'TFT_ERR_ARG', /the text must be a string/);
});

test('half characters wait', async () => {
    const model = await open(), ids = model.tokenize('é☃', {bos: false});
    const pieces = [...model.texts(ids)];
    assert.strictEqual(pieces.join(''), 'é☃');
    assert(ids.length > 2 && pieces.includes('')); // bytes
    assert.strictEqual(model.detokenize(ids.slice(0, -1)), 'é\ufffd');
});

test('logits are those of the oracle', async () => {
    const model = await open(), session = model.session({nLogits: 2, nHidden: 1, kv: 'f32'});
    const ids = model.tokenize(PROMPT);
    assert.strictEqual(session.logits(), null);
    let sum = 0;
    for (const id of ids) {
        sum -= session.pos ? session.logprob(id) : 0;
        await session.feed(id);
    }
    const oracle = execFileSync(TOY, ['nll', FILE, [...ids].join(' '), ids.length, 1]);
    const mean = sum / (ids.length - 1);
    assert(Math.abs(parseFloat(oracle) - mean) < 1e-4, `${oracle} ${mean}`);

    const last = session.logits();
    assert(last instanceof Float32Array);
    assert.strictEqual(last.length, model.info.nVocab);
    const [{token, logprob}] = session.likeliest(1);
    assert.strictEqual(token, last.indexOf(Math.max(...last)));
    assert.strictEqual(logprob, session.logprob(token));
    assert.strictEqual(session.sample(new tuffet.Sampler()), token);
    assert.strictEqual(session.hidden().length, model.info.nEmbd);
    assert.strictEqual(session.hidden(1), null);

    const numbers = [...last]; // a copy stays; the same tokens at once have the same logits
    await session.sync([5, 6]);
    assert.notDeepStrictEqual(session.logits(), last);
    await session.sync(ids.slice(0, -1));
    const before = session.logits();
    await session.sync([...ids]);
    session.rewind(ids.length - 2);
    assert.strictEqual(session.logits(), null);
    await session.feed(ids.slice(-2));
    assert.deepStrictEqual([...session.logits()], numbers);
    assert.deepStrictEqual([...last], numbers);
    assert.deepStrictEqual(session.logits(1), before);
    assert.deepStrictEqual(session.tokens, ids);
});

test('errors', async () => {
    const model = await open(), session = model.session(), S = tuffet.Session;
    await fails(() => open('nowhere/model.gguf'), 'TFT_ERR_IO', /^nowhere\/model.gguf: /);
    await assert.rejects(open('nowhere'), {errno: -os.constants.errno.ENOENT});
    const damaged = path.join(folder, 'damaged.gguf');
    fs.writeFileSync(damaged, fs.readFileSync(FILE).subarray(0, 1000));
    await assert.rejects(open(damaged), error => error.offset > 0);
    for (const [call, says] of [
        [() => tuffet.Model.open(), /path must be a string/],
        [() => open('a\0b'), /the path has a character of zero/],
        [() => open(FILE, 5), /options must be an object/],
        [() => open(FILE, {weights: 'i8'}), /weights must be stored, f32, f16 or bf16/],
        [() => open(FILE, {threads: 1.5}), /threads must be an integer from 0 to 1024/],
        [() => open(FILE, {vocabOnly: 1}), /vocabOnly must be true or false/],
        [() => model.session({Kv: 'f16'}), /there is no option Kv/],
        [() => model.session({kv: 'nonsense'}), /nonsense/],
        [() => model.session({capacity: -1}), /capacity must be an integer/],
        [() => session.feed(), /tokens must be/],
        [() => session.feed('text'), /tokens must be/],
        [() => session.feed(new Float32Array(2)), /tokens must be/],
        [() => session.feed(new Int32Array(new SharedArrayBuffer(8))), /tokens must be/],
        [() => session.feed([1, NaN]), /a token must be an integer/],
        [() => session.feed([1e6]), /not within the vocabulary/],
        [() => session.rewind(1), /cannot rewind to 1/],
        [() => session.logits('a'), /back must be/],
        [() => session.useThreads(0), /threads must be/],
        [() => session.generate(PROMPT, {maxTokens: 'a'}).next(), /maxTokens must be/],
        [() => session.generate(PROMPT, {temperature: NaN}).next(), /temperature must be/],
        [() => session.generate(PROMPT, {heat: 1}).next(), /there is no option heat/],
        [() => new tuffet.Sampler({seed: -1n}), /seed must be/],
        [() => new tuffet.Sampler({seed: 1.5}), /seed must be/]])
        await fails(call, 'TFT_ERR_ARG', says);
    for (const [call, says] of [
        [() => new tuffet.Model(), /Model.open/],
        [() => new S(), /model.session/],
        [() => session.sample({}), /must be a Sampler/],
        [() => session.copyFrom(model), /must be a Session/],
        [() => new tuffet.Sampler({grammar: 'a*'}), /must be a Grammar/],
        [() => session.feed([1], {signal: {}}), /must be an AbortSignal/],
        [() => model.prompt('hello'), /must be an array/]])
        await assert.rejects(async () => call(), error =>
            error instanceof TypeError && says.test(error.message));
    await fails(async () => (await open(FILE, {vocabOnly: true})).session(), 'TFT_ERR_ARG',
        /vocab_only/);
    const getter = {get capacity() { throw new RangeError('mine'); }};
    assert.throws(() => model.session(getter), /^RangeError: mine$/);
    const closing = [1, 2], other = model.session();
    Object.defineProperty(closing, 1, {get: () => { other.close(); return 2; }});
    await fails(() => other.feed(closing), 'CLOSED', /the session is closed/);
    assert.strictEqual(session.pos, 0);
});

test('it ends where the session is full, or the model ends the text', async () => {
    const session = (await open()).session({capacity: 12});
    assert(await textOf(session.generate(PROMPT)));
    assert.deepStrictEqual([session.stopped, session.pos, session.capacity], ['full', 12, 12]);
    await fails(() => session.feed(5), 'TFT_ERR_FULL', /./);
    await fails(() => session.generate(new Array(13).fill(1)).next(), 'TFT_ERR_FULL', /./);
    const ending = (await open(ENDING)).session();
    await textOf(ending.generate(PROMPT, {temperature: 50, seed: 3}));
    assert.strictEqual(ending.stopped, 'end');
    assert.strictEqual(await textOf(ending.generate(PROMPT, {maxTokens: 0})), '');
    assert.strictEqual(ending.stopped, 'length');
});

test('the event loop goes on while a prompt is computed', async () => {
    const session = (await open(LONG)).session();
    let turns = 0, computing = true;
    const turn = () => { turns++; if (computing) setImmediate(turn); };
    setImmediate(turn);
    await session.feed(LONG_PROMPT);
    computing = false;
    assert(turns > 100, `${turns} turns`);
    assert.strictEqual(session.pos, LONG_PROMPT.length);
});

test('an AbortSignal stops a prompt, and a text', async () => {
    const session = (await open(LONG)).session();
    const reason = new Error('enough');
    const abort = new AbortController();
    const fed = session.feed(LONG_PROMPT, {signal: abort.signal});
    setImmediate(() => abort.abort(reason));
    await assert.rejects(fed, error => error === reason);
    assert(session.pos < LONG_PROMPT.length, session.pos);
    await assert.rejects(session.sync([1], {signal: abort.signal}), error => error === reason);

    await session.sync([1, 2]); // a signal that came late stops nothing later
    assert.strictEqual(session.pos, 2);
    const again = new AbortController();
    let pieces = 0;
    await assert.rejects(async () => {
        for await (const _ of session.generate(PROMPT, {signal: again.signal}))
            if (++pieces === 5)
                again.abort();
    }, {name: 'AbortError'});
    assert.strictEqual(pieces, 5);
    await session.feed(5); // it is free again
});

test('two sessions at the same time', async () => {
    const model = await open();
    const sampling = {maxTokens: 60, temperature: 2};
    const alone = [];
    for (const seed of [1, 2, 3])
        alone.push(await textOf(model.session().generate(PROMPT, {seed, ...sampling})));
    const order = [];
    const together = await Promise.all([1, 2, 3].map(async seed => {
        let text = '';
        for await (const piece of model.session({threads: 1})
            .generate(PROMPT, {seed, ...sampling})) {
            text += piece;
            order.push(seed);
        }
        return text;
    }));
    assert.deepStrictEqual(together, alone);
    assert(order.indexOf(1) < order.lastIndexOf(2) && order.indexOf(2) < order.lastIndexOf(1));
    assert.notStrictEqual(alone[0], alone[1]);
});

test('a busy session is refused', async () => {
    const model = await open(LONG), session = model.session();
    const fed = session.feed(LONG_PROMPT.subarray(0, 2000));
    for (const use of [() => session.feed(1), () => session.pos, () => session.logits(),
        () => session.rewind(0), () => session.dump(), () => session.save('nowhere'),
        () => session.generate(PROMPT).next(), () => model.session().copyFrom(session),
        () => model.batch().step(new Map([[session, [1]]]))])
        await fails(use, 'BUSY', /^the session is busy: it computes$/);
    await fed;
    assert.strictEqual(session.pos, 2000);

    const pieces = session.generate(PROMPT);
    const {value} = await pieces.next();
    assert(value && session.pos > 0 && session.logits());
    for (const use of [() => session.feed(1), () => session.generate(PROMPT).next(),
        () => session.rewind(0)])
        await fails(use, 'BUSY', /^the session is busy: it generates a text$/);
    await pieces.return();
    await session.feed(1);
});

test('use after close', async () => {
    const model = await open(), session = model.session(), grammar = model.regex('a*');
    const batch = model.batch(), pieces = session.generate(PROMPT);
    await pieces.next();
    model.close();
    model.close();
    session.close();
    for (const [use, what] of [[() => model.info, 'model'], [() => model.tokenize('a'), 'model'],
        [() => model.session(), 'model'], [() => model.regex('a'), 'model'],
        [() => session.pos, 'session'], [() => session.feed(1), 'session'],
        [() => pieces.next(), 'session'], [() => batch.step(new Map()), 'batch'],
        [() => new tuffet.Sampler({grammar}), 'grammar']])
        await fails(use, 'CLOSED', new RegExp(`^the ${what} is closed$`));
});

test('closed while it computes', async () => {
    const model = await open(LONG);
    const sessions = [model.session(), model.session()];
    const fed = sessions.map(session => session.feed(LONG_PROMPT));
    const text = model.session().generate(LONG_PROMPT).next();
    sessions[0].close();
    model.close();
    await Promise.all([...fed, text].map(promise =>
        fails(() => promise, 'CLOSED', /^the session is closed$/)));
});

test('collected while it is used', async () => {
    const collect = async () => {
        for (let i = 0; i < 3; i++) {
            global.gc();
            await new Promise(go => setImmediate(go));
        }
    };
    const expected = await textOf((await open()).session().generate(PROMPT, {maxTokens: 9}));
    const session = await (async () => (await open()).session())();
    await collect();
    assert.strictEqual(await textOf(session.generate(PROMPT, {maxTokens: 9})), expected);

    const pieces = (await open()).session().generate(PROMPT, {maxTokens: 9});
    await collect();
    assert.strictEqual(await textOf(pieces), expected);

    const [fed, other, sampler] = await (async () => {
        const model = await open(LONG), other = model.session();
        return [model.session().feed(LONG_PROMPT.subarray(0, 1000)), other,
            new tuffet.Sampler({grammar: model.regex('a*')})];
    })();
    await collect();
    await Promise.all([fed, other.feed([1, 2])]);
    assert(other.sample(sampler) >= 0);
});

/* How much larger the process has become by doing something 350 times, in bytes: the least of three
   rounds, since malloc keeps some of what was freed. If sessions were not freed it would be 33 MB or
   more, models 63 MB. */
async function growth(what) {
    const grown = [];
    let before = Infinity;
    for (let round = 0; round < 4; round++) {
        for (let i = 0; i < 350; i++)
            await what();
        global.gc();
        await new Promise(go => setImmediate(go)); // frees what was collected
        const now = process.memoryUsage().rss;
        grown.push(now - before);
        before = now;
    }
    return Math.min(...grown.slice(1));
}

test('nothing leaks', async () => {
    const closed = await growth(async () => {
        const model = await open(), session = model.session();
        await session.feed([1, 2, 3]);
        session.logits();
        model.regex('a*');
        model.close();
    });
    assert(closed < 16e6, `${closed} bytes`);
    const model = await open();
    const dropped = await growth(async () => {
        await textOf(model.session().generate(PROMPT, {maxTokens: 2, grammar: model.regex('a*')}));
    });
    assert(dropped < 16e6, `${dropped} bytes`);
    const refused = await growth(async () => {
        await assert.rejects(open('nowhere'));
        assert.throws(() => model.session({kv: 'x'.repeat(1000)}));
    });
    assert(refused < 16e6, `${refused} bytes`);
});

test('saved', async () => {
    const model = await open(), file = path.join(folder, 'saved');
    const [a, b, c, d] = [1, 2, 3, 4].map(() => model.session());
    await a.feed([1, 5, 9]);
    await a.save(file);
    await b.load(pathToFileURL(file));
    c.restore(a.dump());
    d.copyFrom(a);
    for (const session of [a, b, c, d]) {
        await session.feed(7);
        assert.deepStrictEqual(session.logits(), a.logits());
        assert.deepStrictEqual([...session.tokens], [1, 5, 9, 7]);
    }
    await fails(() => c.restore(a.dump().subarray(1)), 'TFT_ERR_FORMAT', /./);
    await fails(() => c.restore('text'), 'TFT_ERR_ARG', /must be a Uint8Array/);
    await fails(() => model.session({kv: 'f32'}).load(file), 'TFT_ERR_ARG', /./);
    await fails(() => a.load('nowhere'), 'TFT_ERR_IO', /nowhere/);
    assert.strictEqual(c.pos, 4);
});

test('batches', async () => {
    const model = await open(), batch = model.batch({nSessions: 2});
    const [alone, a, b] = [model.session(), model.session(), model.session({capacity: 4})];
    assert.strictEqual((await batch.step(new Map([[a, [1, 2, 3]], [b, [1, 2, 4]]]))).size, 0);
    await alone.feed([1, 2, 3]);
    assert.deepStrictEqual(a.logits(), alone.logits());
    const failed = await batch.step(new Map([[a, [5]], [b, [5, 6]]]));
    assert.deepStrictEqual([...failed.keys()], [b]);
    assert.strictEqual(failed.get(b).code, 'TFT_ERR_FULL');
    assert.deepStrictEqual([a.pos, b.pos], [4, 3]);
    const step = batch.step(new Map([[a, [6]]]));
    await fails(() => batch.step(new Map([[b, [6]]])), 'BUSY', /the batch is busy/);
    await fails(() => a.pos, 'BUSY', /the session is busy/);
    a.close();
    assert.strictEqual((await step).get(a).code, 'CLOSED');
    await fails(() => batch.step(new Map([[b, ['x']]])), 'TFT_ERR_ARG', /a token must be/);
    await batch.step(new Map([[b, [6]]]));
});

test('guesses change nothing but time', async () => {
    const model = await open();
    const plain = model.session(), guessing = model.session({lookup: 8});
    for (let i = 0; i < 60; i++)
        for (const session of [plain, guessing])
            await session.feed(5 + i % 3);
    assert.deepStrictEqual(guessing.logits(), plain.logits());
    assert.strictEqual(plain.guessed, 0);
    assert(guessing.guessed > 20);
});

test('conversations', async () => {
    const model = await open(), session = model.session();
    const prompt = model.prompt([{role: 'user', content: 'a</s>'}]);
    assert.strictEqual(prompt.text, '<s>user: a</s> assistant:');
    assert.strictEqual(prompt.tokens[0], model.bos);
    assert(!prompt.tokens.includes(model.eos)); // what a user wrote stays text
    assert.strictEqual(prompt.goesOn, true);
    assert.match(model.prompt([], {thinking: true}).text, /hmm/);
    const said = [{role: 'user', content: 'hello'}];
    const {tokens, goesOn} = model.prompt(said);
    const text = await textOf(session.chat(said, {maxTokens: 8}));
    assert(text);
    assert.strictEqual(text, await textOf(session.generate(tokens, {goesOn, maxTokens: 8})));
    assert.deepStrictEqual(session.tokens.slice(0, tokens.length), tokens);
    await fails(async () => (await open(ENDING)).prompt([]), 'TFT_ERR_UNSUPPORTED',
        /the model has no chat template/);
});

test('what a template drops', async () => {
    const model = await open(toy('deaf', 'endless=1',
        "template={% for m in messages %}{{ m.content if m.role == 'user' }}{% endfor %}"));
    const said = [{role: 'user', content: 'hello'}, {role: 'tool', content: 'once'}];
    const warned = new Promise(resolve => process.once('warning', resolve));
    assert.deepStrictEqual(Object.keys(model.prompt(said)), ['text', 'tokens', 'goesOn']);
    assert.strictEqual((await warned).message,
        'messages[1]: the chat template drops this result of a tool');
    await fails(() => model.prompt([{role: 'system', content: 'once'}, said[0]]), 'TFT_ERR_ARG',
        /^messages\[0\]: the chat template drops this message$/);
    process.once('warning', assert.fail);
    assert.strictEqual(model.prompt(said.slice(0, 1)).text, 'hello');
    await new Promise(setImmediate); // warnings come later
    process.off('warning', assert.fail);
});

test('the template named tool_use', async () => {
    const model = await open(toy('tools', `template=${TEMPLATE}`,
        'tool_template={{ tools[0] }}{{ messages[0].content }}'));
    const said = [{role: 'user', content: 'hello'}];
    for (const [tools, text] of [[[], '<s>user: hello assistant:'], [['f'], 'fhello'],
        [undefined, '<s>user: hello assistant:']])
        assert.strictEqual(model.prompt(said, {tools}).text, text);
});

test('what a prefix holds is not fed', async () => {
    const file = path.join(folder, 'prefix.gguf');
    execFileSync(TUFFET, ['quantize', FILE, '-o', file, '--intact-system', 'brief=Be brief.',
        '--calib-tokens=256', '--calib-window=64']);
    const model = await open(file), [prefix] = model.prefixes;
    assert.deepStrictEqual([model.prefixes.length, prefix.name, prefix.system],
        [1, 'brief', 'Be brief.']);
    const said = [{role: 'system', content: 'Be brief.'}, {role: 'user', content: 'hi'}];
    const {tokens, goesOn} = model.prompt(said), held = prefix.tokens.length;
    assert.deepStrictEqual(tokens.slice(0, held), prefix.tokens);

    const byHand = model.session({prefix: 'brief'}), made = [];
    const sampler = new tuffet.Sampler({temperature: 2, seed: 1});
    await byHand.feed(tokens.slice(held));
    while (made.push(byHand.sample(sampler)) < 9)
        await byHand.feed(made.at(-1));
    const session = model.session({prefix: 'brief'});
    for (const steps of [{xtcProbability: 1}, {mirostatTau: 0.1}, {typicalP: 0.1}])
        assert.notStrictEqual(
            await textOf(session.chat(said, {maxTokens: 9, temperature: 2, seed: 1, ...steps})),
            model.detokenize(made, {goesOn}));
    assert.strictEqual(
        await textOf(session.chat(said, {maxTokens: 9, temperature: 2, seed: 1})),
        model.detokenize(made, {goesOn}));
    assert.deepStrictEqual(session.tokens, byHand.tokens);
    await textOf(session.generate(prefix.tokens, {maxTokens: 4})); // it is the whole prompt
    assert.strictEqual(session.pos, 3);
});

test('grammars', async () => {
    const model = await open(), session = model.session();
    for (const [grammar, valid] of [
        [model.grammar('root ::= "once" | "upon a time"'), /^(once|upon a time)$/],
        [model.regex('[a-c]{3}x'), /^[a-c]{3}x$/],
        [model.schema({enum: ['the', 'end', 5]}), /^("the"|"end"|5)$/]])
        for (let seed = 0; seed < 4; seed++) {
            const text = await textOf(session.generate(PROMPT,
                {grammar, temperature: 2, seed, maxTokens: 40, goesOn: false}));
            assert.match(text.trim(), valid);
            assert.strictEqual(session.stopped, 'end');
        }
    const once = model.regex(' once');
    assert.strictEqual(await textOf(session.generate(PROMPT, {grammar: once})), ' once');
    assert.strictEqual(await textOf(session.generate(PROMPT, {grammar: once, goesOn: false})),
        'once');
    const other = (await open(ENDING)).regex('a');
    await fails(() => session.generate(PROMPT, {grammar: other}).next(), 'TFT_ERR_ARG',
        /^the grammar is of another model$/);
    await fails(() => model.grammar('root ::= ('), 'TFT_ERR_FORMAT', /line 1/);
    await fails(() => model.schema({unevaluatedItems: false}), 'TFT_ERR_UNSUPPORTED',
        /unevaluatedItems/);
});

/* A folder in which programs find the package and model.gguf. */
function project() {
    const root = fs.mkdtempSync(path.join(folder, 'project-'));
    fs.mkdirSync(path.join(root, 'node_modules'));
    fs.symlinkSync(path.resolve(__dirname, '..'), path.join(root, 'node_modules', 'tuffet'));
    fs.symlinkSync(FILE, path.join(root, 'model.gguf'));
    return root;
}

function run(root, name, source, ...args) {
    fs.writeFileSync(path.join(root, name), source);
    return spawnSync(process.execPath, [name, ...args], {cwd: root, encoding: 'utf8'});
}

test('the programs of the README', () => {
    const text = fs.readFileSync(path.join(__dirname, '..', 'README.md'), 'utf8');
    const blocks = [...text.matchAll(/```js\n(.*?)```/gs)].map(found => found[1]);
    assert(blocks.length > 2);
    const root = project();
    for (const block of blocks) {
        const {status, stdout, stderr} = run(root, 'block.mjs', block);
        assert.deepStrictEqual([status, stderr], [0, ''], block);
        assert(stdout, block);
    }
});

test('the example', () => {
    const source = fs.readFileSync(path.join(__dirname, '..', 'examples', 'generate.mjs'), 'utf8');
    const root = project();
    const told = run(root, 'generate.mjs', source, 'model.gguf', PROMPT);
    assert.deepStrictEqual([told.status, told.stderr], [0, '']);
    assert.strictEqual(told.stdout.trim(), program('-n', '500', '--temp=0.8', '--min-p=0.05',
        '--seed=1', '--top-k=0', '--top-p=1'));
    const failed = run(root, 'generate.mjs', source, 'nowhere.gguf', PROMPT);
    assert.deepStrictEqual([failed.status, failed.stdout], [1, '']);
    assert.match(failed.stderr, /^nowhere.gguf: [^\n]+\n$/);
    assert.strictEqual(run(root, 'generate.mjs', source).status, 2);
});

test('index.d.ts has what index.js has', () => {
    const text = fs.readFileSync(path.join(__dirname, '..', 'index.d.ts'), 'utf8');
    const classes = [...text.matchAll(/^export class (\w+) \{\n(.*?)^\}/gms)];
    assert.deepStrictEqual(classes.map(found => found[1]).sort(), Object.keys(tuffet).sort());
    for (const [, name, body] of classes) {
        const members = [...body.matchAll(/^ {4}(?:private |static |readonly )*(\w+)[(:]/gm)];
        const own = Object.getOwnPropertyNames(tuffet[name]).filter(n =>
            !['length', 'name', 'prototype'].includes(n));
        assert.deepStrictEqual(members.map(found => found[1]).sort(),
            [...Object.getOwnPropertyNames(tuffet[name].prototype), ...own].sort());
    }
});

test('process.exit() does not wait for a prompt', async () => {
    const begun = performance.now();
    await (await open(LONG)).session().feed(LONG_PROMPT);
    const whole = performance.now() - begun;
    const source = `
        const {Model} = require('tuffet');
        Model.open(process.argv[2]).then(async model => {
            model.session().feed(new Int32Array(8000).fill(5)).catch(() => {});
            setTimeout(() => {
                process.stdout.write(String(Date.now()));
                process.exit(3);
            }, 20);
        });`;
    const {status, stdout, stderr} = run(project(), 'exit.js', source, LONG);
    const took = Date.now() - parseInt(stdout);
    assert.deepStrictEqual([status, stderr], [3, '']);
    assert(took < whole, `${took} of ${whole} ms`); // 8,000 tokens take more than 5,000
});

test('worker threads', async () => {
    const source = `
        const {parentPort, workerData: [where, file, n]} = require('node:worker_threads');
        const {Model} = require(where);
        (async () => {
            const session = (await Model.open(file)).session();
            const fed = session.feed(new Int32Array(n).fill(5));
            if (n > 100)
                parentPort.postMessage('computing');
            await fed;
            parentPort.postMessage(session.likeliest(1)[0].token);
        })();`;
    const worker = n => new Worker(source,
        {eval: true, workerData: [require.resolve('..'), LONG, n]});
    const said = w => new Promise((done, failed) => w.on('message', done).on('error', failed));
    const session = (await open(LONG)).session();
    await session.feed(new Int32Array(9).fill(5));
    const workers = [worker(9), worker(9)];
    assert.deepStrictEqual(await Promise.all(workers.map(said)),
        Array(2).fill(session.likeliest(1)[0].token));
    const terminated = worker(1000);
    assert.strictEqual(await said(terminated), 'computing');
    await terminated.terminate();
});
