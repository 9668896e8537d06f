'use strict';
/* The package for Node.js over the addon of src/, which checks the arguments. index.d.ts says what
   the functions do. */
const {randomBytes} = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const {fileURLToPath} = require('node:url');

/* The addon that was built here, or else the one that came with the package. */
function own() {
    const built = path.join(__dirname, 'build', 'Release', 'tuffet.node');
    const packed = path.join(__dirname, 'prebuilds', `${process.platform}-${process.arch}`,
        'tuffet.node');
    return !fs.existsSync(built) && fs.existsSync(packed) ? packed : built;
}

function load(addon) {
    try {
        return require(addon);
    } catch (error) {
        error.message = 'build the addon (README.md), or let TUFFET_ADDON name it: ' +
            error.message;
        throw error;
    }
}
const native = load(process.env.TUFFET_ADDON ?? own());

const MINE = {}; // constructors of what only this file makes take it

const pathOf = path => path instanceof URL ? fileURLToPath(path) : path;

/* Each class sets its function, which takes the addon's handle out of an object. */
let grammarHandle, samplerHandle, sessionHandle;

/* Handles of sessions that compute. Node ends only after its threads have, so process.exit() would
   wait for the end of a prompt. */
const computing = new Set();
process.on('exit', () => computing.forEach(native.sessionStop));

/* Waits for what `start` computes in a session; the AbortSignal ends it. */
async function stoppable(session, signal, start) {
    if (signal !== undefined && !(signal instanceof AbortSignal))
        throw new TypeError('signal must be an AbortSignal');
    signal?.throwIfAborted();
    const stop = () => native.sessionStop(session);
    signal?.addEventListener('abort', stop);
    let promise;
    try {
        promise = start();
        computing.add(session);
        return await promise;
    } catch (error) {
        if (error.code === 'TFT_ERR_CANCELLED')
            signal?.throwIfAborted();
        throw error;
    } finally {
        if (promise)
            computing.delete(session);
        signal?.removeEventListener('abort', stop);
    }
}

class Grammar {
    #handle;

    constructor(mine, handle) {
        if (mine !== MINE)
            throw new TypeError('use model.grammar(), model.regex() or model.schema()');
        this.#handle = handle;
    }

    static {
        grammarHandle = grammar => {
            if (!(grammar instanceof Grammar))
                throw new TypeError('grammar must be a Grammar');
            return grammar.#handle;
        };
    }

    close() {
        native.close(this.#handle);
    }
}

class Sampler {
    #handle;

    constructor({grammar, seed = randomBytes(8).readBigUInt64LE(), ...options} = {}) {
        this.#handle = native.samplerOpen(grammar === undefined ? grammar : grammarHandle(grammar),
            {seed, ...options});
    }

    static {
        samplerHandle = sampler => {
            if (!(sampler instanceof Sampler))
                throw new TypeError('sampler must be a Sampler');
            return sampler.#handle;
        };
    }
}

class Model {
    #handle;

    constructor(mine, handle) {
        if (mine !== MINE)
            throw new TypeError('use await Model.open(path)');
        this.#handle = handle;
    }

    static async open(path, options) {
        return new Model(MINE, await native.modelOpen(pathOf(path), options));
    }

    get info() {
        return native.modelInfo(this.#handle);
    }

    get chatTemplate() {
        return native.modelTemplate(this.#handle);
    }

    get prefixes() {
        return native.modelPrefixes(this.#handle);
    }

    tokenize(text, {bos = true, special = false, goesOn = false} = {}) {
        return native.modelTokenize(this.#handle, text, bos, special, goesOn);
    }

    detokenize(tokens, options) {
        return [...this.texts(tokens, options)].join('');
    }

    *texts(tokens, {goesOn = false} = {}) {
        const state = native.textBegin(goesOn);
        for (const token of tokens)
            yield native.textPush(this.#handle, state, token);
        const rest = native.textEnd(this.#handle, state);
        if (rest)
            yield rest;
    }

    tokenBytes(token, {special = false} = {}) {
        return native.tokenBytes(this.#handle, token, special);
    }

    get bos() {
        return native.tokenBos(this.#handle);
    }

    get eos() {
        return native.tokenEos(this.#handle);
    }

    ends(token) {
        return native.tokenEnds(this.#handle, token);
    }

    prompt(messages, variables = {}) {
        if (!Array.isArray(messages))
            throw new TypeError('messages must be an array');
        const now = new Date();
        const {dropped, ...prompt} = native.modelPrompt(this.#handle,
            JSON.stringify({...variables, messages}),
            Math.floor(now / 1000) - 60 * now.getTimezoneOffset(),
            Array.isArray(variables.tools) && variables.tools.length > 0);
        if (dropped !== null)
            process.emitWarning(
                `messages[${dropped}]: the chat template drops this result of a tool`);
        return prompt;
    }

    grammar(gbnf) {
        return new Grammar(MINE, native.grammarGbnf(this.#handle, gbnf));
    }

    regex(expression) {
        return new Grammar(MINE, native.grammarRegex(this.#handle, expression));
    }

    schema(schema) {
        return new Grammar(MINE, native.grammarSchema(this.#handle, JSON.stringify(schema)));
    }

    session(options) {
        return new Session(MINE, this, native.sessionOpen(this.#handle, options));
    }

    batch(options) {
        return new Batch(MINE, native.batchOpen(this.#handle, options));
    }

    close() {
        native.close(this.#handle);
    }
}

class Session {
    #handle;
    #model;

    constructor(mine, model, handle) {
        if (mine !== MINE)
            throw new TypeError('use model.session()');
        this.#model = model;
        this.#handle = handle;
    }

    static {
        sessionHandle = session => {
            if (!(session instanceof Session))
                throw new TypeError('session must be a Session');
            return session.#handle;
        };
    }

    get model() {
        return this.#model;
    }

    async feed(tokens, {signal} = {}) {
        await stoppable(this.#handle, signal,
            () => native.sessionFeed(this.#handle, tokens, false));
    }

    async sync(tokens, {signal} = {}) {
        await stoppable(this.#handle, signal,
            () => native.sessionFeed(this.#handle, tokens, true));
    }

    rewind(pos) {
        native.sessionRewind(this.#handle, pos);
    }

    promptEnd() {
        native.sessionPromptEnd(this.#handle);
    }

    useThreads(n) {
        native.sessionUseThreads(this.#handle, n);
    }

    get pos() {
        return native.sessionPos(this.#handle);
    }

    get capacity() {
        return native.sessionCapacity(this.#handle);
    }

    get guessed() {
        return native.sessionGuessed(this.#handle);
    }

    get tokens() {
        return native.sessionTokens(this.#handle);
    }

    get stopped() {
        return native.sessionStopped(this.#handle);
    }

    logits(back = 0) {
        return native.sessionLogits(this.#handle, back);
    }

    hidden(back = 0) {
        return native.sessionHidden(this.#handle, back);
    }

    likeliest(k) {
        return native.sessionLikeliest(this.#handle, k);
    }

    logprob(token) {
        return native.sessionLogprob(this.#handle, token);
    }

    sample(sampler) {
        return native.sessionSample(this.#handle, samplerHandle(sampler));
    }

    async *generate(prompt, {maxTokens = Infinity, goesOn = true, signal, ...sampling} = {}) {
        const session = this.#handle;
        const tokens = typeof prompt === 'string' ? this.#model.tokenize(prompt) : prompt;
        native.generateBegin(session, samplerHandle(new Sampler(sampling)), tokens, maxTokens,
            goesOn);
        try {
            for (;;) {
                const text = await stoppable(session, signal, () => native.generateNext(session));
                if (text === null)
                    return;
                yield text;
            }
        } finally {
            native.generateEnd(session);
        }
    }

    async *chat(messages, {variables, ...options} = {}) {
        const {tokens, goesOn} = this.#model.prompt(messages, variables);
        yield* this.generate(tokens, {goesOn, ...options});
    }

    async save(path) {
        await native.sessionSave(this.#handle, pathOf(path));
    }

    async load(path) {
        await native.sessionLoad(this.#handle, pathOf(path));
    }

    dump() {
        return native.sessionDump(this.#handle);
    }

    restore(data) {
        native.sessionRestore(this.#handle, data);
    }

    copyFrom(other) {
        native.sessionCopy(this.#handle, sessionHandle(other));
    }

    close() {
        native.close(this.#handle);
    }
}

class Batch {
    #handle;

    constructor(mine, handle) {
        if (mine !== MINE)
            throw new TypeError('use model.batch()');
        this.#handle = handle;
    }

    async step(fed) {
        const sessions = [...fed.keys()];
        const errors = await native.batchStep(this.#handle, sessions.map(sessionHandle),
            [...fed.values()]);
        return new Map(sessions.map((s, i) => [s, errors[i]]).filter(([, error]) => error));
    }

    close() {
        native.close(this.#handle);
    }
}

module.exports = {Model, Session, Batch, Grammar, Sampler};
