/*
 * A server as the page of `tuffet serve` expects it, whose model is a list of answers: the last
 * user message picks one. It serves the page with the headers that the program sends.
 */
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');

/* The policy of a page: its own style and script by their hashes, and this server. */
function policy(html) {
    const hash = tag => 'sha256-' + crypto.createHash('sha256')
        .update(html.split(`<${tag}>`)[1].split(`</${tag}>`)[0]).digest('base64');
    return `default-src 'none'; script-src '${hash('script')}'; style-src '${hash('style')}'; ` +
        `connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; ` +
        `frame-ancestors 'none'`;
}

const wait = ms => new Promise(done => setTimeout(done, ms));

class Mock {
    constructor(file) {
        this.html = fs.readFileSync(file, 'utf8');
        this.answers = {};          /* text of a user: string, or function of (request, send) */
        this.requests = [];         /* bodies of /v1/chat/completions */
        this.aborted = 0;           /* answers whose client went away */
        this.key = '';
        this.server = http.createServer((q, r) => this.serve(q, r).catch(() => r.destroy()));
    }

    listen() {
        return new Promise(done => this.server.listen(0, '127.0.0.1',
            () => done(`http://127.0.0.1:${this.server.address().port}/`)));
    }

    close() {
        this.server.closeAllConnections();
        this.server.close();
    }

    json(response, status, value) {
        response.writeHead(status, {'Content-Type': 'application/json'});
        response.end(JSON.stringify(value));
    }

    async serve(request, response) {
        if (request.url === '/') {
            response.writeHead(200, {'Content-Type': 'text/html; charset=utf-8',
                'Content-Security-Policy': policy(this.html)});
            response.end(this.html);
            return;
        }
        if (this.key && request.headers.authorization !== 'Bearer ' + this.key)
            return this.json(response, 401, {error: {code: 401, message: 'Invalid API Key',
                type: 'authentication_error'}});
        if (request.url === '/v1/models')
            return this.json(response, 200, {object: 'list', data: [{id: 'mock-1b', object: 'model'}]});
        if (request.url.split('?')[0] === '/props')
            return this.json(response, 200, {default_generation_settings: {n_ctx: 4096,
                params: {temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05}}});
        if (request.url !== '/v1/chat/completions')
            return this.json(response, 404, {error: {code: 404, message: 'no ' + request.url,
                type: 'not_found_error'}});
        let body = '';
        for await (const part of request)
            body += part;
        body = JSON.parse(body);
        this.requests.push(body);
        await this.answer(body, response);
    }

    async answer(body, response) {
        const last = body.messages.findLast(m => m.role === 'user').content;
        const made = this.answers[last] ?? `You said: ${last}`;
        if (made.status)
            return this.json(response, made.status, {error: made.error});
        const start = () => response.writeHead(200, {'Content-Type': 'text/event-stream'});
        const event = value => response.write(`data: ${JSON.stringify(value)}\n\n`);
        const send = (delta, finish_reason = null) => {
            if (!response.headersSent)
                start();
            event({id: 'chatcmpl-1', object: 'chat.completion.chunk',
                choices: [{index: 0, delta, finish_reason}]});
        };
        let tokens = 0, whole = false;
        send({role: 'assistant', content: null});
        const words = async (text, field = 'content', ms = 2) => {
            for (const word of text.match(/\s*\S+|\s+$/g) ?? []) {
                const gone = response.destroyed || response.socket?.destroyed;
                if (!gone)
                    send({[field]: word});
                tokens++;
                await wait(ms); /* also for a client that is gone: the event that says so comes */
                if (gone)
                    break;
            }
        };
        response.on('close', () => { this.aborted += !whole; });
        const finish = typeof made === 'function' ? await made({body, send, words, event, response})
            : (await words(made), 'stop');
        if (finish === 'broken')
            return response.destroy();
        send({}, finish ?? 'stop');
        event({choices: [], usage: {prompt_tokens: 20, completion_tokens: tokens,
            total_tokens: 20 + tokens, prompt_tokens_details: {cached_tokens: 5}},
            timings: {predicted_per_second: 42.5, prompt_per_second: 300}});
        whole = true;
        response.end('data: [DONE]\n\n');
    }
}

module.exports = {Mock, policy, wait};
