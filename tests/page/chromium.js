/* Chromium for tests of the page; see browser.js. */
'use strict';
const fs = require('fs');

const PATIENCE = 120000; /* ms, for what should take less than a second */

function need(name) {
    try {
        return require(name);
    } catch {
        console.log(`skipped: node does not find ${name}; see browser.js`);
        process.exit(77);
    }
}

/* The browser, and the source of axe. */
async function open() {
    const {chromium} = need('playwright-core');
    need('axe-core');
    const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
    const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
    if (!fs.existsSync(executablePath)) {
        console.log(`skipped: there is no ${executablePath}`);
        process.exit(77);
    }
    try {
        const browser = await chromium.launch({executablePath, timeout: PATIENCE, args: [
            '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
            '--disable-background-networking', '--disable-component-update', '--disable-sync']});
        return {browser, axe};
    } catch (e) {
        console.log(`skipped: ${executablePath} does not start: ${e.message.split('\n')[0]}`);
        process.exit(77);
    }
}

/* Adds to errors what goes wrong in a page, and what it asks of others than its server. Messages
   that the page would hide after some seconds stay. */
function watch(page, url, errors) {
    page.setDefaultTimeout(PATIENCE);
    page.addInitScript(() => {
        const later = window.setTimeout;
        window.setTimeout = (fn, ms, ...args) => ms < 5000 ? later(fn, ms, ...args) : 0;
    });
    page.on('pageerror', e => errors.push(String(e)));
    page.on('console', m => {
        if (m.type() === 'error' && !/Failed to load resource/.test(m.text()))
            errors.push(m.text());
    });
    page.on('request', r => {
        if (!r.url().startsWith(url) && !/^(data|blob):/.test(r.url()))
            errors.push('a request to ' + r.url());
    });
}

module.exports = {open, watch, PATIENCE};
