/*
 * The page of `tuffet serve` in a real browser:
 *
 *      NODE_PATH=FOLDER/node_modules node browser.js PAGE [PICTURES [PART]]
 *
 * FOLDER has the packages playwright-core and axe-core (npm install --prefix FOLDER
 * playwright-core axe-core); Chromium is Debian's package, or $CHROMIUM. With PICTURES, a folder,
 * it takes pictures there; with PART, it runs the cases whose names have it. Exit status 77 if a
 * package or the browser is missing; 1 if a case fails.
 */
'use strict';
const assert = require('assert');
const path = require('path');
const {Mock} = require('./mock.js');
const {open, watch} = require('./chromium.js');
const cases = require('./cases.js');

const AT_A_TIME = 3;

async function main(file, pictures, only = '') {
    const {browser, axe} = await open();
    let failed = 0;
    const chosen = cases.filter(c => c[0].includes(only)), waiting = [...chosen];
    const run = async () => {
        while (waiting.length)
            failed += await passes(browser, axe, file, pictures, ...waiting.shift()) ? 0 : 1;
    };
    await Promise.all(Array.from({length: AT_A_TIME}, run));
    await browser.close();
    console.log(`${chosen.length - failed} of ${chosen.length} cases passed`);
    return failed ? 1 : 0;
}

/* Runs a case in a profile of its own, with a server of its own. */
async function passes(browser, axe, file, pictures, name, run, context = {}) {
    const mock = new Mock(file), errors = [];
    const url = await mock.listen();
    const view = await browser.newContext({viewport: {width: 1100, height: 760},
        permissions: ['clipboard-read', 'clipboard-write'], ...context});
    const page = await view.newPage();
    let passed = true;
    watch(page, url, errors);
    try {
        await page.goto(url);
        await page.getByText('mock-1b').first().waitFor();
        await run({page, mock, url, axe: () => judge(page, axe), picture: async (title, element) => {
            if (pictures)
                await (element ?? page).screenshot({path: path.join(pictures, title + '.png')});
        }});
        assert.deepStrictEqual(errors.filter(e => !context.expected?.test(e)), []);
        console.log('ok      ' + name);
    } catch (e) {
        passed = false;
        console.log(`FAILED  ${name}\n${e.stack}\n${errors.join('\n')}`);
        if (pictures)
            await page.screenshot({path: path.join(pictures, 'failed.png')}).catch(() => {});
    }
    await view.close();
    mock.close();
    return passed;
}

/* Whether axe finds what keeps people from using the page. */
async function judge(page, axe) {
    await page.evaluate(axe);
    const found = await page.evaluate(async () => (await window.axe.run(document)).violations
        .filter(v => ['serious', 'critical'].includes(v.impact))
        .map(v => `${v.id}: ${v.nodes.map(n => n.html.slice(0, 160) + ' ' +
            n.any.map(a => a.message).join()).join(' | ')}`));
    assert.deepStrictEqual(found, []);
}

main(...process.argv.slice(2)).then(code => process.exit(code), e => {
    console.error(e);
    process.exit(1);
});
