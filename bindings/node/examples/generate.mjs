// Continues a text, until Ctrl-C: node examples/generate.mjs MODEL TEXT
import {Model} from 'tuffet';

const [path, prompt] = process.argv.slice(2);
if (prompt === undefined) {
    console.error('usage: generate.mjs MODEL TEXT');
    process.exit(2);
}
const stop = new AbortController();
process.once('SIGINT', () => stop.abort());

try {
    const model = await Model.open(path);
    const session = model.session();
    for await (const text of session.generate(prompt,
        {temperature: 0.8, minP: 0.05, seed: 1, signal: stop.signal}))
        process.stdout.write(text);
    console.log();
    model.close();
} catch (error) {
    if (error.name !== 'AbortError') {
        console.error(error.message);
        process.exitCode = 1;
    }
}
