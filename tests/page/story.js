/*
 * The library for WebAssembly, in Node.js and, as a page in one file, in a real browser:
 *
 *      NODE_PATH=FOLDER/node_modules node story.js FOLDER TUFFET MODEL
 *
 * FOLDER has tuffet.js and story.html of tools/scripts/wasm.sh, TUFFET is a program for this
 * machine, MODEL the model in the page. The rest as browser.js.
 */
'use strict';
const assert = require('assert');
const {execFileSync} = require('child_process');
const fs = require('fs');
const path = require('path');
const {pathToFileURL} = require('url');
const {open, watch} = require('./chromium.js');

const PROMPT = 'Once upon a time';

async function collect(pieces) {
    let text = '';
    for await (const piece of pieces)
        text += piece;
    return text;
}

async function library(folder, file, want) {
    const {Story} = require(path.resolve(folder, 'tuffet.js'));
    const story = await Story.open(fs.readFileSync(file));
    assert.strictEqual(story.logits, null, 'nothing has been computed');
    assert.strictEqual(await collect(story.tell(PROMPT, {temperature: 0})), want);
    const tokens = story.tokens;
    assert.strictEqual(await collect(story.tell(PROMPT, {temperature: 0})), want, 'told again');
    assert.strictEqual(story.tokens, tokens);
    assert.ok(story.logits.every(Number.isFinite));

    const drawn = seed => collect(story.tell(PROMPT, {seed, tokens: 20}));
    assert.strictEqual(await drawn(1), await drawn(1));
    assert.notStrictEqual(await drawn(1), await drawn(2));

    const stop = new AbortController();
    let pieces = 0;
    for await (const piece of story.tell(PROMPT, {signal: stop.signal}))
        if (piece && ++pieces === 3)
            stop.abort();
    assert.strictEqual(pieces, 3);

    const small = await Story.open(fs.readFileSync(file), {context: 16});
    await collect(small.tell(PROMPT));
    assert.strictEqual(small.tokens, 16, 'a full session ends the text');
    await assert.rejects(collect(small.tell('long '.repeat(50))), /full|context/);
    await assert.rejects(Story.open(new Uint8Array(100)), /neither a GGUF file/);
    console.log('ok      the library in Node.js');
}

async function page(folder, want) {
    const {browser, axe} = await open();
    const url = pathToFileURL(path.resolve(folder, 'story.html')).href;
    const view = await browser.newPage(), errors = [];
    watch(view, url, errors);
    await view.goto(url);
    const button = name => view.getByRole('button', {name, exact: true});
    await view.getByLabel('Temperature').fill('0');
    await button('Tell it').click();
    await view.getByText(/tokens, \d+ a second/).waitFor();
    assert.strictEqual(await view.locator('#story').textContent(), PROMPT + want);
    console.log('        ' + await view.locator('#said').textContent());

    await view.getByLabel('Temperature').fill('1');
    await view.evaluate(() => { /* told and stopped at once: a story may be short */
        const go = document.getElementById('go');
        go.click();
        go.click();
    });
    await button('Tell it').waitFor();
    await view.addScriptTag({content: axe});
    const {violations} = await view.evaluate(() => axe.run());
    assert.deepStrictEqual(violations.map(v => v.id), []);
    assert.deepStrictEqual(errors, []);
    await browser.close();
    console.log('ok      the page in Chromium');
}

async function main(folder, tuffet, file) {
    const want = JSON.parse(execFileSync(tuffet, ['run', file, '-p', PROMPT, '--temp', '0',
        '--json'], {stdio: ['ignore', 'pipe', 'ignore']})).text;
    await library(folder, file, want);
    await page(folder, want);
}

main(...process.argv.slice(2)).catch(e => {
    console.log(e.stack);
    process.exit(1);
});
