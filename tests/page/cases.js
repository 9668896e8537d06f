/* What the page does: [name, function, options of the browser's context]. */
'use strict';
const assert = require('assert');
const fs = require('fs');
const {wait} = require('./mock.js');
const {PATIENCE} = require('./chromium.js');

const message = page => page.getByRole('textbox', {name: 'Message', exact: true});
const button = (page, name) => page.getByRole('button', {name, exact: true});
const answers = page => page.locator('.md.answer');

async function ask(page, text) {
    await message(page).fill(text);
    await message(page).press('Enter');
}

/* Where an answer waits until its case opens it: cases do not depend on the speed of the machine. */
function gate() {
    let open;
    const opened = new Promise(done => { open = done; });
    return {open, opened};
}

/* Waits for what has no event. */
async function until(isSo, what) {
    for (const end = Date.now() + PATIENCE; !await isSo(); await wait(10))
        assert.ok(Date.now() < end, what);
}

/* Waits until the page has drawn what it knows. */
const drawn = page => page.evaluate(() => new Promise(
    done => requestAnimationFrame(() => requestAnimationFrame(done))));

/* Waits until nothing is written any more. */
const rest = page => page.waitForFunction(() => !document.querySelector('.live') &&
    document.getElementById('send').title === 'Send');

async function asked(page, text) {
    await ask(page, text);
    await rest(page);
}

const MARKDOWN = `## Static quantization

A **W8A8** model keeps *weights* and *activations* in 8 bits; \`scale\` is fixed. See
[the paper](https://example.org/paper) or https://example.org/x.

1. Run the model on a few texts.
2. Note the largest values:
   - of each channel
   - of each token
3. Choose scales.

| isa | dot product | tokens/s |
|:-----|:-----------:|---------:|
| avx2 | 32 | 41.5 |
| avx512vnni | 64 | **77.0** |

> A prefix absorbs the outliers.

\`\`\`c
/* The scale of a row. */
static float scale(const float *x, size_t n)
{
    float most = 0.0f;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    return most / 127.0f;    // never "too small"
}
\`\`\`

---

That is ~~most~~ all.`;

const HOSTILE = `<script>window.hacked = 1</script>
<img src=x onerror="window.hacked = 2">
**<svg onload=window.hacked=3>**

[good](https://example.org/) [bad](javascript:window.hacked=4) [worse](JaVaScRiPt:window.hacked=5)
[data](data:text/html,<script>window.hacked=6</script>) ![pixel](https://example.org/pixel.png)

| <b onclick="window.hacked=7">x</b> | y |
|---|---|
| <iframe srcdoc="<script>parent.hacked=8</script>"></iframe> | \`<i>\` |

\`\`\`"><script>window.hacked=9</script>
</code></pre><script>window.hacked=10</script>
\`\`\`
# <style>body{display:none}</style>`;

/* Texts on which a careless parser takes minutes. */
const SLOW = ['*'.repeat(20000), '[' .repeat(20000), '![](' .repeat(5000), '`'.repeat(9999) + 'a',
    '> '.repeat(5000), '- '.repeat(5000), '**a '.repeat(8000), '_a_'.repeat(5000),
    '|'.repeat(5000) + '\n' + '|-'.repeat(5000), 'h'.repeat(5) + 'http://'.repeat(4000),
    '"'.repeat(9999), '```js\n' + '\'\\'.repeat(9999), '/*'.repeat(9999), '\n'.repeat(20000),
    ' '.repeat(20000) + 'x', '#'.repeat(20000), '- a\n'.repeat(3000), '~~'.repeat(9000),
    '[a](' + ' '.repeat(9999) + 'x', '|\n-' + ' '.repeat(99999) + 'x', '|\n' + ' '.repeat(99999) + 'x',
    '# a' + ' '.repeat(99999) + '#x', '```' + ' '.repeat(99999) + '`', '~'.repeat(99999) + '`'];

module.exports = [
    ['an answer streams, and is Markdown', async ({page, mock, picture}) => {
        const seen = gate();
        mock.answers.Explain = async ({words}) => {
            await words(MARKDOWN.slice(0, 60));
            await seen.opened;
            await words(MARKDOWN.slice(60), 'content', 0);
        };
        await ask(page, 'Explain');
        await answers(page).getByRole('heading', {name: 'Static quantization'}).waitFor();
        assert.strictEqual(await button(page, 'Stop').count(), 1, 'while it is written');
        seen.open();
        await rest(page);
        await page.locator('#say', {hasText: /^Answer: Static quantization/}).waitFor();
        const a = answers(page);
        assert.strictEqual(await a.locator('strong').first().innerText(), 'W8A8');
        assert.deepStrictEqual(await a.locator('ol > li').count(), 3);
        assert.deepStrictEqual(await a.locator('ol > li:nth-child(2) > ul > li').allInnerTexts(),
            ['of each channel', 'of each token']);
        assert.strictEqual(await a.locator('td').nth(5).innerText(), '77.0');
        assert.strictEqual(await a.locator('td').nth(5).evaluate(e => getComputedStyle(e).textAlign), 'right');
        assert.match(await a.locator('pre').innerText(), /return most \/ 127\.0f; {4}\/\/ never "too small"\n}$/);
        assert.strictEqual(await a.locator('.k', {hasText: 'static'}).count(), 1);
        assert.deepStrictEqual(await a.locator('a').evaluateAll(l => l.map(x => x.href)),
            ['https://example.org/paper', 'https://example.org/x']);
        assert.strictEqual(await a.locator('del').innerText(), 'most');
        assert.strictEqual(await a.locator('blockquote').innerText(), 'A prefix absorbs the outliers.');
        await button(page, 'Copy the code').click();
        assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^\/\* The scale of a row/);
        const stats = await page.locator('.stats').innerText();
        assert.match(stats, /^\d+ tokens · 42\.5 tokens\/s · prompt 20 \(5 cached\)$/);
        assert.match(await page.locator('#room').innerText(), /of 4,096 tokens/);
        const {messages, stream, stream_options} = mock.requests[0];
        assert.deepStrictEqual(messages, [{role: 'user', content: 'Explain'}]);
        assert.ok(stream && stream_options.include_usage);
        await page.evaluate(() => { document.getElementById('scroll').scrollTop = 0; });
        await picture('light');
        await page.getByLabel('Theme').selectOption('dark');
        await picture('dark');
    }],

    ['an answer is stopped, and answered again', async ({page, mock}) => {
        let times = 0;
        mock.answers.Count = async ({words}) => {
            if (times++)
                return words('Short.');
            for (let i = 0; i < 100000 && !mock.aborted; i++)
                await words(`${i} `, 'content', 10);
        };
        await ask(page, 'Count');
        await answers(page).getByText('3').waitFor();
        await page.keyboard.press('Escape');
        await page.getByText('Stopped.', {exact: true}).first().waitFor();
        const kept = await answers(page).innerText();
        assert.ok(kept.startsWith('0 1 2 3') && !kept.includes('99999'));
        await until(() => mock.aborted, 'the server sees that the client went away');
        assert.strictEqual(mock.aborted, 1);
        await button(page, 'Answer again').click();
        await rest(page);
        assert.strictEqual(await answers(page).innerText(), 'Short.');
        assert.deepStrictEqual(mock.requests[1].messages, [{role: 'user', content: 'Count'}]);
        await button(page, 'Previous version').click();
        assert.strictEqual(await answers(page).innerText(), kept);
        assert.strictEqual(await button(page, 'Previous version').isDisabled(), true);
        await asked(page, 'And on?');
        assert.strictEqual(mock.requests[2].messages[1].content.trim(), kept.trim());
    }],

    ['a message is edited: a new branch, the old one stays', async ({page, mock}) => {
        await asked(page, 'one');
        await asked(page, 'two');
        await button(page, 'Edit and send again').first().click();
        await page.getByRole('textbox', {name: 'Your message'}).fill('uno');
        await page.keyboard.press('Enter');
        await rest(page);
        assert.deepStrictEqual(await answers(page).allInnerTexts(), ['You said: uno']);
        assert.deepStrictEqual(mock.requests[2].messages, [{role: 'user', content: 'uno'}]);
        await button(page, 'Previous version').click();
        assert.deepStrictEqual(await answers(page).allInnerTexts(), ['You said: one', 'You said: two']);
        await page.reload();
        await answers(page).nth(1).waitFor();
        assert.deepStrictEqual(await answers(page).allInnerTexts(), ['You said: one', 'You said: two']);
        await message(page).press('ArrowUp');
        assert.strictEqual(await page.getByRole('textbox', {name: 'Your message'}).inputValue(), 'two');
        await page.keyboard.press('Escape');
        await button(page, 'Delete from here').nth(1).click();
        assert.strictEqual(await answers(page).count(), 0);
        await button(page, 'Undo').click();
        assert.strictEqual(await answers(page).count(), 2);
    }],

    ['text of the model is never markup', async ({page, mock}) => {
        mock.answers.Attack = async ({words}) => {
            await words(HOSTILE, 'reasoning_content', 0);
            await words(HOSTILE, 'content', 0);
        };
        await asked(page, 'Attack');
        await page.locator('.thoughts summary').click();
        await drawn(page);
        assert.strictEqual(await page.evaluate(() => window.hacked), undefined);
        const tags = await page.evaluate(() => [...new Set([...document.querySelectorAll('#log .md *')]
            .map(e => e.localName))].sort());
        for (const tag of ['script', 'img', 'iframe', 'style', 'i', 'b'])
            assert.ok(!tags.includes(tag), `${tag} in ${tags}`);
        const links = await answers(page).locator('a').evaluateAll(l => l.map(a => a.href));
        assert.ok(links.every(l => l.startsWith('https://example.org/')), links.join());
        const attributes = await page.evaluate(() => [...document.querySelectorAll('#log *')]
            .flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on')));
        assert.deepStrictEqual(attributes, []);
        assert.match(await answers(page).innerText(), /<script>window\.hacked = 1<\/script>/);
        assert.match(await answers(page).locator('pre').innerText(), /^<\/code><\/pre><script>/);
        /* Even markup that gets into the page is no script. */
        const blocked = await page.evaluate(() => new Promise(done => {
            document.addEventListener('securitypolicyviolation', e => done(e.violatedDirective));
            const s = document.createElement('script');
            s.textContent = 'window.hacked = 11';
            document.body.append(s);
        })).catch(String);
        assert.match(blocked, /^script-src/);
        assert.strictEqual(await page.evaluate(() => window.hacked), undefined);
    }, {expected: /Content Security Policy/}],

    ['long and odd texts are quick', async ({page, mock}) => {
        for (const [i, text] of SLOW.entries()) {
            mock.answers['slow ' + i] = async ({send}) => { send({content: text}); };
            await asked(page, 'slow ' + i);
            assert.ok(await answers(page).last().evaluate(e => e.childNodes.length) > 0 || !text.trim(), `${i}`);
            await button(page, 'New chat').first().click();
        }
    }],

    ['thoughts are apart, and are not sent back', async ({page, mock, picture}) => {
        const seen = gate();
        mock.answers.Think = async ({words}) => {
            await words('First I weigh it. Then I decide.', 'reasoning_content', 5);
            await seen.opened;
            await words('Forty-two.');
        };
        await ask(page, 'Think');
        await page.locator('.thoughts[open]').waitFor();
        seen.open();
        await rest(page);
        assert.strictEqual(await page.locator('.thoughts[open]').count(), 0, 'closed once it answers');
        assert.strictEqual(await answers(page).innerText(), 'Forty-two.');
        await page.locator('.thoughts summary').click();
        await page.getByText('First I weigh it.').waitFor();
        await picture('thoughts');
        await asked(page, 'Next');
        assert.deepStrictEqual(mock.requests[1].messages[1], {role: 'assistant', content: 'Forty-two.'});
    }],

    ['tools: the browser answers, or the user does', async ({page, mock, picture}) => {
        const calls = (send, ...list) => {
            list.forEach(([name, args], index) => {
                send({tool_calls: [{index, id: 'c' + index, type: 'function', function: {name, arguments: ''}}]});
                for (const part of args.match(/.{1,5}/g))
                    send({tool_calls: [{index, function: {arguments: part}}]});
            });
            return 'tool_calls';
        };
        mock.answers.Compute = async ({body, send, words}) => {
            const results = body.messages.filter(m => m.role === 'tool');
            if (!results.length)
                return calls(send, ['calculator', '{"expression": "3 * (2 + sqrt(16)) ^ 2 - 10 / 4"}'], ['clock', '{}']);
            await words(`It is ${results[0].content}.`);
        };
        mock.answers.Weather = async ({body, send, words}) => {
            const results = body.messages.filter(m => m.tool_call_id === 'c0' && m.name === 'weather');
            if (!results.length)
                return calls(send, ['weather', '{"city": "Kraków"}']);
            await words(`It is ${results[0].content}.`);
        };
        await button(page, 'Settings').click();
        await page.getByLabel('Calculator').check();
        await page.getByLabel('Clock').check();
        const own = page.getByLabel('Your own tools, as JSON in OpenAI’s format');
        await own.fill('[{"type": "function"}]');
        await page.getByText('Tool 1 has no "function" with a "name".').waitFor();
        await own.fill('[{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]');
        await button(page, 'Done').click();
        await asked(page, 'Compute');
        await page.getByText('It is 105.5.').first().waitFor();
        assert.deepStrictEqual(mock.requests[0].tools.map(t => t.function.name), ['clock', 'calculator', 'weather']);
        const back = mock.requests[1].messages;
        assert.strictEqual(back[1].tool_calls[0].function.arguments, '{"expression": "3 * (2 + sqrt(16)) ^ 2 - 10 / 4"}');
        assert.deepStrictEqual(back[2], {role: 'tool', tool_call_id: 'c0', name: 'calculator', content: '105.5'});
        assert.match(back[3].content, /\d{4}.*\(/);
        await asked(page, 'Weather');
        const result = page.getByRole('textbox', {name: 'Result of weather'});
        await result.waitFor();
        await picture('tools');
        await result.fill('rain');
        await result.press('Enter');
        await page.getByText('It is rain.').first().waitFor();
        await rest(page);
    }],

    ['settings are sent, and kept', async ({page, mock, picture, axe}) => {
        await button(page, 'Settings').click();
        await picture('settings');
        await axe();
        assert.strictEqual(await page.getByLabel('Temperature').getAttribute('placeholder'), '0.8');
        await page.getByLabel('Temperature').fill('0');
        await page.getByLabel('Maximum tokens').fill('7');
        await page.getByLabel('Seed').fill('11');
        await page.getByLabel('Thinking').selectOption('off');
        await page.getByLabel('System prompt').fill('Be brief.');
        await page.getByLabel('JSON schema of the answer').fill('{"type": "array"}');
        await page.keyboard.press('Escape');
        await page.waitForFunction(() => document.activeElement.id === 'set');
        await asked(page, 'a');
        const sent = {temperature: 0, max_tokens: 7, seed: 11, chat_template_kwargs: {enable_thinking: false},
            response_format: {type: 'json_schema', json_schema: {name: 'answer', schema: {type: 'array'}}},
            messages: [{role: 'system', content: 'Be brief.'}, {role: 'user', content: 'a'}]};
        for (const [name, value] of Object.entries(sent))
            assert.deepStrictEqual(mock.requests[0][name], value, name);
        assert.ok(!('top_p' in mock.requests[0]), 'what is not set is the server’s');
        await page.reload();
        await button(page, 'New chat').first().click();
        await asked(page, 'b');
        assert.strictEqual(mock.requests[1].seed, 11);
        assert.strictEqual(mock.requests[1].messages[0].content, 'Be brief.');
    }],

    ['errors are said in plain words, and tried again', async ({page, mock, picture, axe}) => {
        mock.answers.Long = {status: 400, error: {code: 400, type: 'exceed_context_size_error', message: 'x',
            n_prompt_tokens: 5000, n_ctx: 4096}};
        mock.answers.Busy = {status: 429, error: {message: 'queue is full'}};
        mock.answers.Odd = {status: 400, error: {message: 'tools[0]: there is no name'}};
        mock.answers.Broken = async ({words}) => {
            await words('It was a dark and');
            await answers(page).getByText('It was a dark and').waitFor();
            return 'broken';
        };
        mock.answers.Midway = async ({words, event}) => {
            await words('Half an');
            event({error: {code: 500, message: 'out of memory'}});
        };
        const error = page.locator('.error').last();
        await asked(page, 'Long');
        assert.match(await error.innerText(), /takes 5,000 tokens; the model has room for 4,096/);
        await asked(page, 'Odd');
        assert.match(await error.innerText(), /tools\[0\]: there is no name/);
        await asked(page, 'Broken');
        assert.match(await error.innerText(), /The answer broke off/);
        assert.strictEqual(await answers(page).last().innerText(), 'It was a dark and');
        await asked(page, 'Midway');
        assert.match(await error.innerText(), /out of memory/);
        await asked(page, 'Busy');
        assert.match(await error.innerText(), /The server is busy/);
        assert.match(await page.locator('#say').innerText(), /The server is busy/);
        await picture('errors');
        await axe();
        delete mock.answers.Busy;
        await button(page, 'Try again').last().click();
        await rest(page);
        assert.strictEqual(await answers(page).last().innerText(), 'You said: Busy');
        mock.close();
        await asked(page, 'Anybody?');
        assert.match(await error.innerText(), /The server does not answer/);
    }],

    ['a key is asked for, and kept for the tab alone', async ({page, mock}) => {
        mock.key = 'let me in';
        await ask(page, 'Hello');
        await page.getByLabel('API key').fill('let me in');
        await page.keyboard.press('Enter');
        await answers(page).getByText('You said: Hello').waitFor();
        await rest(page);
        assert.strictEqual(await page.locator('.error').count(), 0);
        assert.ok(!(await page.evaluate(() => JSON.stringify(localStorage))).includes('let me in'));
    }],

    ['conversations: names, search, delete, undo, export, import', async ({page, mock, picture}) => {
        for (const name of ['Bread', 'A very long name of a conversation that has no room', 'Tea']) {
            await asked(page, name);
            await button(page, 'New chat').first().click();
        }
        const list = page.locator('#chats .name');
        assert.strictEqual(await list.count(), 3);
        await button(page, 'Bread').click();
        assert.strictEqual(await answers(page).innerText(), 'You said: Bread');
        await button(page, 'Rename Bread').click();
        await page.getByRole('textbox', {name: 'Name of the conversation'}).fill('Loaf');
        await page.keyboard.press('Enter');
        assert.strictEqual(await page.getByRole('heading', {name: 'Loaf'}).count(), 1);
        await page.goBack();
        await page.goForward();
        await page.getByRole('heading', {name: 'Loaf'}).waitFor();

        const save = async name => {
            await button(page, 'Settings').click();
            const [file] = await Promise.all([page.waitForEvent('download'), button(page, name).click()]);
            await button(page, 'Done').click();
            return fs.readFileSync(await file.path(), 'utf8');
        };
        const all = await save('Export all (JSON)');
        assert.deepStrictEqual(JSON.parse(all).chats.map(c => c.name).sort(),
            ['A very long name of a conversation that has no room', 'Loaf', 'Tea']);
        assert.strictEqual(await save('Export this chat (Markdown)'),
            '# Loaf\n\n## You\n\nBread\n\n## Answer\n\nYou said: Bread\n');

        await button(page, 'Delete Loaf').click();
        assert.strictEqual(await list.count(), 2);
        await button(page, 'Undo').click();
        assert.strictEqual(await list.count(), 3);

        page.once('dialog', d => d.accept());
        await button(page, 'Settings').click();
        await button(page, 'Delete all').click();
        assert.strictEqual(await list.count(), 0);
        assert.deepStrictEqual(await page.evaluate(() => Object.keys(localStorage)
            .filter(k => k.startsWith('tuffet.chat.'))), []);
        const open = text => page.locator('#pick-chats').setInputFiles({name: 'x.json', mimeType: 'application/json',
            buffer: Buffer.from(text)});
        await open('{"chats": [{"nodes": {"a": {"id": "a", "parent": "a", "role": "user"}}}]}');
        await page.getByText('This file contains no conversations of tuffet.').waitFor();
        await open(all);
        await page.getByText('Imported 3 conversations.').waitFor();
        assert.strictEqual(await list.count(), 3);
        await button(page, 'Loaf').click();
        assert.strictEqual(await answers(page).innerText(), 'You said: Bread');
    }],

    ['a text file goes with a message', async ({page, mock}) => {
        const pick = (name, buffer) => page.locator('#pick').setInputFiles({name, mimeType: 'text/plain', buffer});
        await pick('photo.png', Buffer.from([0x89, 0x50, 0, 255]));
        await page.getByText('photo.png is not a text file').waitFor();
        await pick('notes.md', Buffer.from('Buy ```milk```\n'));
        await page.getByRole('button', {name: 'Remove notes.md'}).waitFor();
        await asked(page, 'What to buy?');
        assert.strictEqual(mock.requests[0].messages[0].content,
            'notes.md:\n````\nBuy ```milk```\n````\n\nWhat to buy?');
    }],

    ['the keyboard alone is enough', async ({page, mock, axe}) => {
        const focus = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') ??
            document.activeElement.textContent.trim());
        assert.strictEqual(await focus(), 'Message', 'where one types at once');
        await page.keyboard.type('line 1');
        await page.keyboard.press('Shift+Enter');
        await page.keyboard.type('line 2');
        await page.keyboard.press('Enter');
        await answers(page).getByText('line 2').waitFor();
        await rest(page);
        assert.strictEqual(mock.requests[0].messages[0].content, 'line 1\nline 2');
        assert.strictEqual(await focus(), 'Message');
        const seen = [];
        for (let i = 0; i < 12; i++) {
            await page.keyboard.press('Shift+Tab');
            seen.push(await focus());
        }
        for (const name of ['Answer again', 'Copy the answer', 'Edit and send again', 'Settings', 'Conversations'])
            assert.ok(seen.includes(name), `${name} in ${seen}`);
        const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        assert.strictEqual(ring, 'solid', 'focus is seen');
        const before = await focus();
        await page.keyboard.press('Alt+s');
        await page.getByRole('dialog', {name: 'Settings'}).waitFor();
        for (let i = 0; i < 30; i++) {
            await page.keyboard.press('Tab');
            assert.ok(await page.evaluate(() => document.activeElement === document.body ||
                Boolean(document.activeElement.closest('dialog'))), 'focus stays in the dialog');
        }
        await page.keyboard.press('Escape');
        await until(async () => await focus() === before, `focus goes back to ${before}`);
        await page.keyboard.press('Alt+r');
        await page.getByText('2 / 2').waitFor();
        await rest(page);
        await page.keyboard.press('Alt+n');
        await page.getByRole('heading', {name: 'New chat'}).waitFor();
        await until(async () => await focus() === 'Message', 'one can type at once');
    }],

    ['assistive technology: names, and no serious finding', async ({page, mock, axe}) => {
        mock.answers.Explain = MARKDOWN;
        await axe();
        await asked(page, 'Explain');
        await page.evaluate(() => { document.getElementById('toast').hidden = true; });
        for (const theme of ['light', 'dark']) {
            await page.getByLabel('Theme').selectOption(theme);
            await axe();
        }
        const nameless = await page.evaluate(() => [...document.querySelectorAll('button, input, select, textarea, a')]
            .filter(e => !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length)
            .map(e => e.outerHTML));
        assert.deepStrictEqual(nameless, []);
        assert.strictEqual(await page.getByRole('heading', {name: 'Answer', exact: true}).count(), 1);
    }],

    ['an answer is announced twice, not for each word', async ({page, mock}) => {
        await page.evaluate(() => {
            window.said = [];
            new MutationObserver(() => {
                const text = document.getElementById('say').textContent;
                if (text)
                    window.said.push(text);
            }).observe(document.getElementById('say'), {childList: true, characterData: true, subtree: true});
        });
        mock.answers.Much = 'word '.repeat(100);
        await asked(page, 'Much');
        await page.waitForFunction(() => window.said.length > 1);
        await drawn(page);
        const said = await page.evaluate(() => window.said);
        assert.strictEqual(said.length, 2, said.join('|'));
        assert.match(said[1], /^Answer: word word/);
        assert.strictEqual(await page.evaluate(() => document.querySelectorAll('#log [aria-live]').length), 0);
    }],

    ['a phone of 320 px', async ({page, mock, picture, axe}) => {
        mock.answers.Explain = MARKDOWN + '\n\n' + 'unbroken'.repeat(40) + ' `' + 'code'.repeat(40) + '`';
        assert.strictEqual(await page.locator('#side').isVisible(), false);
        await message(page).fill('Explain');
        await button(page, 'Send').click();
        await answers(page).getByText('That is').waitFor();
        await rest(page);
        const wide = () => page.evaluate(() => [document.documentElement, document.getElementById('scroll')]
            .map(e => e.scrollWidth - e.clientWidth));
        assert.deepStrictEqual(await wide(), [0, 0]);
        await picture('phone');
        await button(page, 'Conversations').click();
        await page.locator('#side').waitFor();
        await page.waitForFunction(() => document.activeElement.id === 'new');
        await picture('phone-list');
        await axe();
        await page.keyboard.press('Escape');
        await page.locator('#side').waitFor({state: 'hidden'});
        await button(page, 'Settings').click();
        await picture('phone-settings');
        assert.deepStrictEqual(await page.evaluate(() => [...document.querySelectorAll('dialog[open], .fields')]
            .map(e => e.scrollWidth - e.clientWidth).filter(n => n > 0)), []);
        await button(page, 'Done').click();
        await button(page, 'Edit and send again').click();
        assert.deepStrictEqual(await wide(), [0, 0]);
        await page.getByRole('textbox', {name: 'Your message'}).press('Escape');
        /* Keys on the screen: Enter starts a line. */
        await message(page).fill('a');
        await message(page).press('Enter');
        assert.strictEqual(await message(page).inputValue(), 'a\n');
        await button(page, 'Send').click();
        await rest(page);
    }, {viewport: {width: 320, height: 640}, hasTouch: true, isMobile: true, deviceScaleFactor: 2}],

    ['the system’s dark mode, and a switch', async ({page, picture, axe}) => {
        const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        const dark = await paper();
        await picture('empty-dark');
        await axe();
        await page.getByLabel('Theme').selectOption('light');
        assert.notStrictEqual(await paper(), dark);
        await page.reload();
        assert.notStrictEqual(await paper(), dark);
    }, {colorScheme: 'dark'}],

    ['reduced motion', async ({page, mock}) => {
        const seen = gate();
        mock.answers.Slowly = async ({words}) => {
            await words('One two three four');
            await seen.opened;
        };
        await ask(page, 'Slowly');
        await answers(page).getByText('One').waitFor();
        const moving = await page.evaluate(() => document.getAnimations().length);
        assert.strictEqual(moving, 0);
        seen.open();
        await rest(page);
    }, {reducedMotion: 'reduce'}],

    ['two chats answer at once', async ({page, mock}) => {
        const seen = gate();
        mock.answers.Slowly = async ({words}) => {
            await words('a b c d e f');
            await seen.opened;
            await words(' m n o p');
        };
        await ask(page, 'Slowly');
        await answers(page).getByText('a b').waitFor();
        await button(page, 'New chat').first().click();
        await asked(page, 'Quick');
        assert.strictEqual(await answers(page).innerText(), 'You said: Quick');
        assert.strictEqual(await page.locator('#chats .busy').count(), 1);
        await button(page, 'Slowly').click();
        seen.open();
        await answers(page).getByText('o p').waitFor();
        await rest(page);
    }],

    ['the page follows the answer until the reader scrolls up', async ({page, mock}) => {
        const seen = gate();
        mock.answers.Lines = async ({words}) => {
            for (let i = 0; i < 150; i++) {
                if (i === 60)
                    await seen.opened;
                await words(`line ${i}\n\n`, 'content', 3);
            }
        };
        await ask(page, 'Lines');
        await answers(page).getByText('line 59', {exact: true}).waitFor();
        const below = () => page.evaluate(() => {
            const s = document.getElementById('scroll');
            return s.scrollHeight - s.scrollTop - s.clientHeight;
        });
        await until(async () => await below() < 60, 'the newest text is seen');
        await page.mouse.move(600, 300);
        await page.mouse.wheel(0, -600);
        await button(page, 'Go to the newest text').waitFor();
        seen.open();
        await answers(page).getByText('line 149', {exact: true}).waitFor();
        await rest(page);
        assert.ok(await below() > 300);
        await button(page, 'Go to the newest text').click();
        await until(async () => await below() < 60, 'the newest text is seen again');
    }],

    ['a stream is read in pieces of any size', async ({page, mock}) => {
        const text = 'Grüße 👋🏽 from Kraków – “quoted” \\ and\n\n| tables |\n|---|\n| ß |';
        mock.answers.Pieces = async ({response, event}) => {
            event({prompt_progress: {total: 100, processed: 40}, choices: []});
            await page.getByText('Reading 40 %').waitFor();
            const chunk = content => `data: ${JSON.stringify({choices: [{index: 0, delta: {content}}]})}\r\n\r\n`;
            const bytes = Buffer.from(': ping\n\n' + text.match(/.{1,7}/gsu).map(chunk).join(': ping\n\n'));
            for (let at = 0; at < bytes.length;) {
                const n = 1 + at * 7 % 13;
                response.write(bytes.subarray(at, at += n));
                if (at % 5 === 0)
                    await wait(1);
            }
        };
        await asked(page, 'Pieces');
        assert.strictEqual(await answers(page).locator('p').first().innerText(),
            'Grüße 👋🏽 from Kraków – “quoted” \\ and');
        assert.strictEqual(await answers(page).locator('td').innerText(), 'ß');
    }],

    ['a chat that is deleted while it answers stays deleted', async ({page, mock}) => {
        mock.answers.Slowly = async ({words}) => {
            await words('a b c');
            while (mock.aborted < times)
                await wait(5);
        };
        let times = 0;
        const kept = () => page.evaluate(() => Object.keys(localStorage)
            .filter(k => k.startsWith('tuffet.chat.')).length);
        const ended = async () => {
            await until(() => mock.aborted >= times, 'nobody waits for the answer');
            await drawn(page);
        };
        for (times = 1; times <= 2; times++) {
            await ask(page, 'Slowly');
            await answers(page).getByText('a b').waitFor();
            if (times === 1) {
                await button(page, 'Delete Slowly').click();
            } else {
                page.once('dialog', d => d.accept());
                await button(page, 'Settings').click();
                await button(page, 'Delete all').click();
            }
            await ended();
            assert.strictEqual(await page.locator('#chats .name').count(), 0);
            assert.strictEqual(await kept(), 0);
            if (times === 1) {
                await button(page, 'Undo').click();
                assert.match(await answers(page).innerText(), /^a b/);
                await page.getByText('Stopped.', {exact: true}).first().waitFor();
                assert.strictEqual(await kept(), 1);
                await button(page, 'Delete Slowly').click();
            }
        }
    }],

    ['to undo a deletion keeps what was said since', async ({page}) => {
        await asked(page, 'one');
        await asked(page, 'two');
        await button(page, 'Delete from here').nth(2).click();
        await asked(page, 'three');
        await button(page, 'Undo').click();
        assert.deepStrictEqual(await answers(page).allInnerTexts(), ['You said: one', 'You said: two']);
        await button(page, 'Next version').click();
        assert.deepStrictEqual(await answers(page).allInnerTexts(), ['You said: one', 'You said: three']);
    }],

    ['files of chats are not trusted, nor is the address', async ({page, url}) => {
        const node = (id, parent, more = {}) => ({id, parent, role: 'user', text: `text ${id}`, ...more});
        const cases = [
            [node('a', null), node('b', 'a'), node('a', 'b')],    /* in a ring */
            [node('a', null), node('a', 'a')],
            [node('null', null)],
            [node('__proto__', null), node('x', '__proto__'), node('a', null)],
            [node('a', null, {text: 7, files: [null, {name: 1}], calls: 'x'})],
            [node('a', null), node(['b'], 'a'), node('a"]', 'a'), node('c', 'none'), 7, null],
        ];
        for (const [i, nodes] of cases.entries()) {
            const chat = {id: 'x', name: 'case ' + i, leaf: nodes.at(-1)?.id, nodes: {...nodes}};
            await page.locator('#pick-chats').setInputFiles({name: 'x.json', mimeType: 'application/json',
                buffer: Buffer.from(JSON.stringify({chats: [chat]}))});
            await page.getByText(i === 2 ? 'This file contains no' : 'Imported 1').waitFor();
            await page.evaluate(() => { document.getElementById('toast').hidden = true; });
            if (i !== 2)
                await page.getByRole('heading', {name: 'case ' + i}).waitFor();
        }
        await page.goto(url + '#%');
        await page.reload();
        await page.getByText('mock-1b').first().waitFor();
        await asked(page, 'Hello');
        assert.strictEqual(await answers(page).innerText(), 'You said: Hello');
    }],

    ['another tab shows what was said here', async ({page, url}) => {
        await asked(page, 'Here');
        const other = await page.context().newPage();
        await other.goto(page.url());
        await answers(other).getByText('You said: Here').waitFor();
        await asked(page, 'And here');
        await answers(other).getByText('You said: And here').waitFor();
        await asked(other, 'There');
        await answers(page).getByText('You said: There').waitFor();
        await other.goto(url);
        await asked(other, 'Elsewhere');
        await page.locator('#chats').getByText('Elsewhere').waitFor();
        assert.strictEqual(await answers(page).count(), 3, 'the open chat stays');
    }],

    ['a full storage is said, and the chat goes on', async ({page}) => {
        await page.evaluate(() => {
            const free = 5 * 1024 * 1024 - JSON.stringify(localStorage).length - 64;
            for (let size = free; size > 8; size = Math.floor(size / 2))
                try {
                    localStorage.setItem('fill' + size, 'x'.repeat(size));
                } catch { /* smaller ones still fit */ }
        });
        await asked(page, 'Anything of some length that does not fit any more');
        await page.getByText('storage is full').waitFor();
        assert.match(await answers(page).innerText(), /^You said: Anything/);
        await asked(page, 'More');
        assert.strictEqual(await answers(page).count(), 2);
    }],
];
