/*
 * That texts of grammars of schemas are valid, by the word of ajv:
 *
 *      NODE_PATH=FOLDER/node_modules node campaign.js DRAW TOY COUNT [SEED]
 *
 * draws COUNT texts for random schemas from models of random weights. DRAW and TOY are programs of
 * build/test/tests. FOLDER has the packages ajv (8), ajv-formats and, for a third of the schemas,
 * json-schema-faker (npm install --prefix FOLDER ajv ajv-formats json-schema-faker). Exit status
 * 77 if ajv is missing; 1 if a text is not valid.
 */
'use strict';
const {spawnSync} = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const {pathToFileURL} = require('url');
const {Random, Schemas, META, around, value} = require('./schemas.js');

const BATCH = 200, EACH = 8;
const ARCHS = ['llama', 'qwen3', 'gemma', 'gpt2', 'phi3', 'olmo2'];

function need(name) {
    try {
        return require(name);
    } catch {
        console.log(`skipped: node does not find ${name}; see campaign.js`);
        process.exit(77);
    }
}

async function faker() {
    for (const folder of (process.env.NODE_PATH ?? '').split(path.delimiter)) {
        const file = path.join(folder, 'json-schema-faker', 'dist', 'index.js');
        if (folder && fs.existsSync(file))
            return import(pathToFileURL(file));
    }
    console.log('json-schema-faker is not in NODE_PATH: its schemas are left out');
    return null;
}

function run(program, args, input) {
    const done = spawnSync(program, args, {input, maxBuffer: 1 << 28, encoding: 'utf8'});
    if (done.status !== 0)
        throw new Error(`${program} ${args}: ${done.status ?? done.signal} ${done.stderr}`);
    return done.stdout;
}

/* Where schemas come from: [name, function of a seed]. */
function sources(jsf) {
    const all = [['all keywords', seed => new Schemas(seed).root()],
        ['around values', seed => {
            const r = new Random(seed);
            return around(r, value(r, 3), 3);
        }]];
    if (jsf)
        all.push(['json-schema-faker', seed => jsf.generateSync(META,
            {seed, optionalsProbability: 0.2, maxDepth: 30})]);
    return all;
}

/* What one text is: '' if it is valid, else what ajv says. */
function judge(validate, text) {
    try {
        return validate(JSON.parse(text)) ? '' : JSON.stringify(validate.errors);
    } catch (e) {
        return e.message;
    }
}

function compile(packages, schema) {
    /* beside a pattern or constants a format says nothing (docs/chat.md) */
    const asserts = !/"(pattern|enum|const)":/.test(JSON.stringify(schema));
    const ajv = new packages.Ajv({strict: true, validateFormats: asserts, multipleOfPrecision: 6, strictTypes: false, strictTuples: false,
        strictRequired: false, ownProperties: true, logger: false});
    packages.formats(ajv);
    try {
        return ajv.compile(schema);
    } catch {
        return null;
    }
}

/* Draws texts for a batch of schemas, and counts them in `sum`. */
function draw(batch, model, seed, program, packages, sum) {
    const input = batch.map(b => b.order + JSON.stringify(b.schema) + '\n').join('');
    const answers = run(program, [model, String(seed), String(EACH)], input).split('\n');
    let at = 0;
    for (const b of batch) {
        const s = sum[b.source];
        s.schemas++;
        if (answers[at][0] === '!')
            s.refused++;
        const validate = answers[at][0] === '!' ? null : compile(packages, b.schema);
        if (!validate && answers[at][0] !== '!')
            s.unjudged++;
        const seen = new Set();
        for (; answers[at] !== '.'; at++) {
            const a = answers[at];
            if (a === '~')
                s.endless++;
            if (a[0] !== '=' || !validate)
                continue;
            s.texts++;
            seen.add(a);
            const wrong = judge(validate, a.slice(1));
            if (wrong && s.invalid++ < 10)
                console.log(`${b.order}${JSON.stringify(b.schema)}\n  ${a.slice(1)}\n  ${wrong}`);
        }
        s.distinct += seen.size;
        at++;
    }
}

async function main() {
    const [program, toy, count, start = '1'] = process.argv.slice(2);
    const packages = {Ajv: need('ajv/dist/2020'), formats: need('ajv-formats')};
    const makes = sources(await faker());
    const sum = makes.map(([name]) => ({name, schemas: 0, refused: 0, unjudged: 0, texts: 0,
        distinct: 0, endless: 0, invalid: 0}));
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'campaign-'));
    process.on('exit', () => fs.rmSync(folder, {recursive: true}));
    for (const signal of ['SIGINT', 'SIGTERM'])
        process.on(signal, () => process.exit(1));
    const model = path.join(folder, 'toy.gguf');
    const total = key => sum.reduce((n, s) => n + s[key], 0);
    for (let seed = Number(start); total('texts') < Number(count); seed++) {
        run(toy, ['write', model, `arch=${ARCHS[seed % ARCHS.length]}`, 'ctx=512', `seed=${seed}`,
            `vocab=${seed % 4 < 2 ? 'llama' : 'gpt2'}`]);
        const batch = Array.from({length: BATCH}, (_, i) => {
            const source = i % makes.length;
            return {source, order: i % 5 === 4 ? 'a' : 'o',
                schema: makes[source][1](seed * BATCH + i)};
        });
        draw(batch, model, seed, program, packages, sum);
    }
    console.table(sum);
    process.exit(total('invalid') ? 1 : 0);
}

main();
