/*
 * Real clients against `tuffet serve`, over the loopback:
 *
 *      NODE_PATH=FOLDER/node_modules node clients.js TUFFET TOY
 *
 * TUFFET and TOY are programs of build/test. FOLDER has the packages of the clients (npm install
 * --prefix FOLDER openai @anthropic-ai/sdk ollama @langchain/openai @langchain/core ai
 * @ai-sdk/openai-compatible).
 * A client that is not there is said and left out; exit status 77 if none is there, 1 if a case
 * fails. An answer that is aborted would be far longer than clients take to abort it.
 */
'use strict';
const assert = require('assert');
const {serve} = require('../page/serve.js');

const MODEL = 'toy';
const SCHEMA = {type: 'object', properties: {city: {enum: ['Oslo', 'Rome']},
    days: {type: 'integer', minimum: 1, maximum: 9}}, required: ['city', 'days'],
additionalProperties: false};
const TOOL = {type: 'function', function: {name: 'weather', description: 'The weather',
    parameters: SCHEMA}};
const TURNS = 10;
const TEXTS = ['Once upon a time', 'a tuffet'];
const MESSAGES = [{role: 'user', content: 'Once upon a time'}];
const CONTEXT = 100000, LONG = CONTEXT - 1000;
const TOO_LONG = 'word '.repeat(CONTEXT / 2);

function right(value) {
    assert.ok(['Oslo', 'Rome'].includes(value.city) && value.days >= 1 && value.days <= 9,
        JSON.stringify(value));
}

/* Two vectors of length 1 that differ. */
function areVectors([a, b, ...more]) {
    assert.strictEqual(more.length, 0);
    for (const v of [a, b])
        assert.ok(Math.abs(v.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5, v.join());
    assert.notDeepStrictEqual(a, b);
}

/* Cases of each package: function of (package, url) that returns [name, function]. */
const clients = {
    openai(OpenAI, url) {
        const c = new OpenAI({baseURL: url + '/v1', apiKey: 'none', maxRetries: 0});
        const base = {model: MODEL, messages: MESSAGES, temperature: 0, max_tokens: 12};
        return [
            ['models', async () => {
                const list = await c.models.list();
                assert.strictEqual(list.data.length, 1);
                const [{id}] = list.data;
                assert.strictEqual((await c.models.retrieve(id)).id, id);
                await assert.rejects(c.models.retrieve('other'), e => e.status === 404);
            }],
            ['embeddings', async () => {
                const ask = async more => (await c.embeddings.create({model: MODEL,
                    input: TEXTS, ...more})).data.map(d => Array.from(d.embedding));
                const packed = await ask({}); /* it asks for base64 */
                areVectors(packed);
                assert.deepStrictEqual(packed, (await ask({encoding_format: 'float'}))
                    .map(v => v.map(Math.fround)));
                assert.strictEqual((await ask({dimensions: 5}))[1].length, 5);
            }],
            ['plain and streamed are the same', async () => {
                const plain = await c.chat.completions.create(base);
                assert.strictEqual(plain.choices[0].finish_reason, 'length');
                assert.strictEqual(plain.usage.completion_tokens, 12);
                let text = '', usage = null, reason = null;
                for await (const part of await c.chat.completions.create({...base, stream: true,
                    stream_options: {include_usage: true}})) {
                    text += part.choices[0]?.delta?.content ?? '';
                    reason = part.choices[0]?.finish_reason ?? reason;
                    usage = part.usage ?? usage;
                }
                assert.strictEqual(text, plain.choices[0].message.content);
                assert.strictEqual(reason, 'length');
                assert.strictEqual(usage.completion_tokens, 12);
            }],
            ['a seed', async () => {
                const draw = async seed => (await c.chat.completions.create({...base, temperature: 1.5,
                    seed})).choices[0].message.content;
                const one = await draw(1);
                assert.strictEqual(await draw(1), one);
                assert.notStrictEqual(await draw(2), one);
            }],
            ['JSON schema', async () => {
                const r = await c.chat.completions.create({...base, max_tokens: 200,
                    response_format: {type: 'json_schema', json_schema: {name: 'x', strict: true, schema: SCHEMA}}});
                right(JSON.parse(r.choices[0].message.content));
            }],
            ['tools, plain and by the streaming helper', async () => {
                const asked = {...base, max_tokens: 200, tools: [TOOL], tool_choice: 'required',
                    parallel_tool_calls: false};
                const r = await c.chat.completions.create(asked);
                assert.strictEqual(r.choices[0].finish_reason, 'tool_calls');
                const call = r.choices[0].message.tool_calls[0];
                assert.strictEqual(call.function.name, 'weather');
                right(JSON.parse(call.function.arguments));
                const helper = c.chat.completions.stream(asked);
                const last = (await helper.finalChatCompletion()).choices[0].message.tool_calls[0];
                assert.strictEqual(last.function.arguments, call.function.arguments);
                const on = await c.chat.completions.create({...base, messages: [...MESSAGES, r.choices[0].message,
                    {role: 'tool', tool_call_id: call.id, content: 'rain'}], tools: [TOOL]});
                assert.strictEqual(on.choices[0].message.role, 'assistant');
            }],
            ['abort', async () => {
                const stream = await c.chat.completions.create({...base, max_tokens: LONG,
                    stream: true});
                let n = 0;
                for await (const part of stream)
                    if (part && ++n === 5)
                        stream.controller.abort();
                const after = await c.chat.completions.create(base);
                assert.strictEqual(after.usage.completion_tokens, 12);
            }],
            ['responses, plain and streamed, are the same', async () => {
                const asked = {model: MODEL, input: TEXTS[0], temperature: 0, max_output_tokens: 12};
                const plain = await c.responses.create(asked);
                assert.strictEqual(plain.status, 'incomplete');
                assert.strictEqual(plain.incomplete_details.reason, 'max_output_tokens');
                assert.strictEqual(plain.usage.output_tokens, 12);
                const chat = await c.chat.completions.create(base);
                assert.strictEqual(plain.output_text, chat.choices[0].message.content);
                let text = '';
                for await (const event of await c.responses.create({...asked, stream: true}))
                    text += event.type === 'response.output_text.delta' ? event.delta : '';
                assert.strictEqual(text, plain.output_text);
                const last = await c.responses.stream(asked).finalResponse();
                assert.strictEqual(last.output[0].content[0].text, plain.output_text);
            }],
            ['responses that call tools in ten turns', async () => {
                const asked = {model: MODEL, temperature: 0, max_output_tokens: 200,
                    tools: [{type: 'function', ...TOOL.function, strict: true}],
                    tool_choice: 'required', parallel_tool_calls: false};
                const input = [...MESSAGES];
                let earlier = {};
                for (let turn = 0; turn < TURNS; turn++) {
                    const plain = await c.responses.create({...asked, input});
                    const [call] = plain.output.filter(item => item.type === 'function_call');
                    right(JSON.parse(call.arguments));
                    const streamed = await c.responses.stream({...asked, input}).finalResponse();
                    assert.strictEqual(streamed.output.at(-1).arguments, call.arguments);
                    const result = {type: 'function_call_output', call_id: call.call_id, output: 'rain'};
                    earlier = {previous_response_id: plain.id, input: [result]};
                    input.push(...plain.output, result);
                }
                const ends = {...asked, tool_choice: 'none', max_output_tokens: 12};
                const whole = await c.responses.create({...ends, input});
                const short = await c.responses.create({...ends, ...earlier});
                assert.strictEqual(short.output_text, whole.output_text);
                assert.strictEqual(short.usage.input_tokens, whole.usage.input_tokens);
                assert.ok(short.usage.input_tokens_details.cached_tokens > 0);
            }],
            ['responses that are kept', async () => {
                const asked = {model: MODEL, input: TEXTS[0], max_output_tokens: 3};
                const {id, output} = await c.responses.create(asked);
                assert.deepStrictEqual((await c.responses.retrieve(id)).output, output);
                await c.responses.delete(id);
                for (const gone of [() => c.responses.retrieve(id),
                    () => c.responses.create({...asked, previous_response_id: id})])
                    await assert.rejects(gone(), e => e instanceof OpenAI.NotFoundError);
            }],
            ['errors', async () => {
                await assert.rejects(c.chat.completions.create({...base, messages: 'x'}),
                    e => e.status === 400 && e instanceof OpenAI.BadRequestError && e.message.length > 5);
                await assert.rejects(c.chat.completions.create({...base,
                    messages: [{role: 'user', content: TOO_LONG}]}),
                e => e.status === 400 && /context/.test(e.message + e.type));
            }],
        ];
    },

    '@anthropic-ai/sdk'(Anthropic, url) {
        const c = new Anthropic({baseURL: url, apiKey: 'none', maxRetries: 0});
        const base = {model: MODEL, messages: MESSAGES, temperature: 0, max_tokens: 12};
        const asked = {...base, max_tokens: 200, tool_choice: {type: 'any',
            disable_parallel_tool_use: true}, tools: [{name: 'weather', description: 'The weather',
            input_schema: SCHEMA}]};
        return [
            ['plain and streamed are the same', async () => {
                const plain = await c.messages.create(base);
                assert.strictEqual(plain.stop_reason, 'max_tokens');
                assert.strictEqual(plain.usage.output_tokens, 12);
                let text = '';
                for await (const event of await c.messages.create({...base, stream: true}))
                    text += event.type === 'content_block_delta' ? event.delta.text : '';
                assert.strictEqual(text, plain.content[0].text);
                const last = await c.messages.stream(base).finalMessage();
                assert.deepStrictEqual(last.content, plain.content);
                assert.strictEqual(last.usage.output_tokens, 12);
            }],
            ['tokens are counted', async () => {
                const {usage} = await c.messages.create(asked);
                const {max_tokens, temperature, ...prompt} = asked;
                assert.ok(max_tokens && temperature === 0);
                assert.strictEqual((await c.messages.countTokens(prompt)).input_tokens,
                    usage.input_tokens + usage.cache_read_input_tokens);
            }],
            ['tools in ten turns', async () => {
                const messages = [...MESSAGES];
                for (let turn = 0; turn < TURNS; turn++) {
                    const plain = await c.messages.create({...asked, messages});
                    assert.strictEqual(plain.stop_reason, 'tool_use');
                    const call = plain.content.at(-1);
                    assert.strictEqual(call.name, 'weather');
                    right(call.input);
                    const streamed = await c.messages.stream({...asked, messages}).finalMessage();
                    assert.strictEqual(JSON.stringify(streamed.content.at(-1).input),
                        JSON.stringify(call.input));
                    const {content} = turn % 2 ? streamed : plain;
                    messages.push({role: 'assistant', content}, {role: 'user', content: [{
                        type: 'tool_result', tool_use_id: content.at(-1).id, content: 'rain'}]});
                }
                const end = await c.messages.create({...asked, messages, max_tokens: 12,
                    tool_choice: {type: 'none'}});
                assert.strictEqual(end.stop_reason, 'max_tokens');
                assert.ok(end.usage.cache_read_input_tokens > 0);
            }],
            ['abort', async () => {
                const stream = await c.messages.create({...base, max_tokens: LONG, stream: true});
                let n = 0;
                for await (const event of stream)
                    if (event.type === 'content_block_delta' && ++n === 5)
                        stream.controller.abort();
                assert.strictEqual((await c.messages.create(base)).usage.output_tokens, 12);
            }],
            ['errors', async () => {
                await assert.rejects(c.messages.create({...base,
                    messages: [{role: 'user', content: TOO_LONG}]}),
                e => e instanceof Anthropic.BadRequestError && /prompt is too long/.test(e.message));
                await assert.rejects(c.messages.create({...base, container: 'x'}),
                    e => e.status === 501 && /container/.test(e.message));
            }],
        ];
    },

    ollama({Ollama}, url) {
        const c = new Ollama({host: url});
        const base = {model: MODEL, messages: MESSAGES, options: {temperature: 0, num_predict: 12}};
        return [
            ['models', async () => {
                const {models} = await c.list();
                assert.strictEqual(models.length, 1);
                assert.ok((await c.show({model: models[0].name})).details);
                assert.strictEqual((await c.ps()).models[0].digest, models[0].digest);
            }],
            ['embeddings', async () => {
                const {embeddings} = await c.embed({model: MODEL, input: TEXTS});
                areVectors(embeddings);
                const {embedding} = await c.embeddings({model: MODEL, prompt: TEXTS[0]});
                assert.strictEqual(embedding.length, embeddings[0].length);
                await assert.rejects(c.embed({model: MODEL, input: TOO_LONG, truncate: false}),
                    /context/);
            }],
            ['plain and streamed are the same', async () => {
                const plain = await c.chat(base);
                assert.strictEqual(plain.done_reason, 'length');
                assert.strictEqual(plain.eval_count, 12);
                let text = '';
                for await (const part of await c.chat({...base, stream: true}))
                    text += part.message.content;
                assert.strictEqual(text, plain.message.content);
            }],
            ['generate', async () => {
                const r = await c.generate({model: MODEL, prompt: 'Once', options: base.options});
                assert.ok(r.done && r.response.length > 0);
            }],
            ['JSON schema', async () => {
                const r = await c.chat({...base, format: SCHEMA, options: {num_predict: 200}});
                right(JSON.parse(r.message.content));
            }],
            ['abort', async () => {
                const stream = await c.chat({...base, options: {num_predict: LONG}, stream: true});
                await assert.rejects(async () => {
                    let n = 0;
                    for await (const part of stream)
                        if (part && ++n === 5)
                            stream.abort();
                }, /abort/i);
                assert.strictEqual((await c.chat(base)).eval_count, 12);
            }],
            ['errors', async () => {
                await assert.rejects(c.chat({...base,
                    messages: [{role: 'user', content: TOO_LONG}]}), /context/);
            }],
        ];
    },

    '@langchain/openai'({ChatOpenAI, OpenAIEmbeddings}, url) {
        const c = new ChatOpenAI({model: MODEL, apiKey: 'none', temperature: 0, maxTokens: 200, maxRetries: 0,
            configuration: {baseURL: url + '/v1'}});
        return [
            ['plain and streamed are the same', async () => {
                const plain = await c.invoke('Once upon a time', {max_tokens: 12});
                let text = '';
                for await (const part of await c.stream('Once upon a time', {max_tokens: 12}))
                    text += part.content;
                assert.strictEqual(text, plain.content);
            }],
            ['tools', async () => {
                const r = await c.bindTools([TOOL], {tool_choice: 'weather'}).invoke('Weather?');
                assert.strictEqual(r.tool_calls[0].name, 'weather');
                right(r.tool_calls[0].args);
            }],
            ['JSON schema', async () => {
                right(await c.withStructuredOutput(SCHEMA, {name: 'x', method: 'jsonSchema', strict: true})
                    .invoke('Where?'));
            }],
            ['embeddings', async () => {
                const e = new OpenAIEmbeddings({model: MODEL, apiKey: 'none', maxRetries: 0,
                    configuration: {baseURL: url + '/v1'}});
                areVectors(await e.embedDocuments(TEXTS));
            }],
        ];
    },

    'ai'({generateText, streamText, generateObject, embedMany, jsonSchema, tool}, url) {
        const {createOpenAICompatible} = require('@ai-sdk/openai-compatible');
        const provider = createOpenAICompatible({name: 'tuffet', baseURL: url + '/v1',
            supportsStructuredOutputs: true});
        const model = provider.chatModel(MODEL);
        const base = {model, prompt: 'Once upon a time', temperature: 0, maxOutputTokens: 200, maxRetries: 0};
        return [
            ['plain and streamed are the same', async () => {
                const plain = await generateText({...base, maxOutputTokens: 12});
                assert.strictEqual(plain.finishReason, 'length');
                let text = '';
                for await (const part of streamText({...base, maxOutputTokens: 12}).textStream)
                    text += part;
                assert.strictEqual(text, plain.text);
            }],
            ['tools', async () => {
                const tools = {weather: tool({description: 'x', inputSchema: jsonSchema(SCHEMA)})};
                const r = await generateText({...base, tools, toolChoice: 'required'});
                assert.strictEqual(r.toolCalls[0].toolName, 'weather');
                right(r.toolCalls[0].input);
            }],
            ['JSON schema', async () => {
                right((await generateObject({...base, schema: jsonSchema(SCHEMA)})).object);
            }],
            ['embeddings', async () => {
                const r = await embedMany({model: provider.embeddingModel(MODEL), values: TEXTS,
                    maxRetries: 0});
                areVectors(r.embeddings);
                assert.ok(r.usage.tokens > 2);
            }],
            ['abort', async () => {
                const stop = new AbortController();
                const r = streamText({...base, maxOutputTokens: LONG, abortSignal: stop.signal});
                let n = 0;
                for await (const part of r.fullStream)
                    if (part && ++n === 5)
                        stop.abort();
                assert.ok((await generateText({...base, maxOutputTokens: 12})).text.length > 0);
            }],
        ];
    },
};

async function main(tuffet, toy) {
    let cases = 0, failed = 0;
    for (const [name, make] of Object.entries(clients)) {
        let client;
        try {
            client = require(name);
        } catch (e) {
            if (e.code !== 'MODULE_NOT_FOUND')
                throw e;
            console.log(`left out: node does not find ${name}; see clients.js`);
            continue;
        }
        const server = await serve(tuffet, toy, {settings: {ctx: CONTEXT}});
        for (const [title, run] of make(client, server.url)) {
            cases++;
            try {
                await run();
                console.log(`ok      ${name}: ${title}`);
            } catch (e) {
                failed++;
                console.log(`FAILED  ${name}: ${title}\n${e.stack}`);
            }
        }
        assert.strictEqual(await server.stop(), 0, server.log());
    }
    if (!cases) {
        console.log('skipped: node finds none of the clients');
        process.exit(77);
    }
    console.log(`${cases - failed} of ${cases} cases passed`);
    process.exit(failed ? 1 : 0);
}

main(...process.argv.slice(2)).catch(e => {
    console.error(e);
    process.exit(1);
});
