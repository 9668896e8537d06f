/*
 * The page in a real browser, with the real server and a model of random weights:
 *
 *      NODE_PATH=FOLDER/node_modules node real.js TUFFET TOY
 *
 * TUFFET and TOY are programs of build/test; the rest as browser.js.
 */
'use strict';
const assert = require('assert');
const {open, watch} = require('./chromium.js');
const {serve} = require('./serve.js');

const HEADERS = {
    'content-type': 'text/html; charset=utf-8',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
};

async function check(page, url) {
    const first = await page.goto(url + '/');
    for (const [name, value] of Object.entries(HEADERS))
        assert.strictEqual(first.headers()[name], value, name);
    assert.match(first.headers()['content-security-policy'], /^default-src 'none'; script-src 'sha256-/);
    const again = await fetch(url + '/', {headers: {'If-None-Match': first.headers().etag}});
    assert.strictEqual(again.status, 304);

    const button = name => page.getByRole('button', {name, exact: true});
    const answer = page.locator('.md.answer').last();
    const rest = () => page.waitForFunction(() => !document.querySelector('.live') &&
        document.getElementById('send').title === 'Send');
    const ask = async text => {
        await page.getByRole('textbox', {name: 'Message', exact: true}).fill(text);
        await page.keyboard.press('Enter');
    };
    const set = async values => {
        await button('Settings').click();
        for (const [label, value] of Object.entries(values))
            await page.getByLabel(label, {exact: true}).fill(value);
        await button('Done').click();
    };
    await page.locator('#model', {hasText: 'toy'}).waitFor();

    await set({'Maximum tokens': '20', Seed: '3'});
    await ask('Once upon a time');
    await rest();
    assert.strictEqual(await page.locator('.error').count(), 0);
    assert.match(await page.locator('.stats').innerText(), /^20 tokens · [\d.]+ tokens\/s · prompt \d+/);
    await page.getByText('The answer reached the limit of tokens.').waitFor();
    const text = await answer.innerText();
    await button('Answer again').click();
    await page.getByText('2 / 2').waitFor();
    await rest();
    assert.strictEqual(await answer.innerText(), text, 'the same seed, the same answer');
    assert.match(await page.locator('.stats').innerText(), /\d+ cached/);

    await set({'Maximum tokens': '90000'});
    await ask('And then');
    await answer.waitFor();
    await button('Stop').click();
    await page.getByText('Stopped.', {exact: true}).first().waitFor();
    await rest();

    await set({'Maximum tokens': '200', 'JSON schema of the answer': '{"enum": ["yes", "no"]}'});
    await ask('Is it so?');
    await rest();
    assert.match(await answer.innerText(), /^"(yes|no)"$/);
    await set({'JSON schema of the answer': ''});

    await ask('word '.repeat(120000));
    await rest();
    assert.match(await page.locator('.error').last().innerText(), /too long for the model/);
}

async function main(tuffet, toy) {
    const {browser} = await open();
    const server = await serve(tuffet, toy, {settings: {ctx: 100000}}), errors = [];
    const page = await browser.newPage();
    watch(page, server.url, errors);
    let status = 0;
    try {
        await check(page, server.url);
        assert.deepStrictEqual(errors, []);
    } catch (e) {
        console.log(e.stack, errors.join('\n'));
        status = 1;
    }
    await browser.close();
    assert.strictEqual(await server.stop(), 0, server.log());
    process.exit(status);
}

main(...process.argv.slice(2)).catch(e => {
    console.error(e);
    process.exit(1);
});
