/* A model and one session of it. tools/scripts/wasm.sh appends this to what emscripten makes of
   story.c and the library: the function tuffetLibrary. */
class Story {
    #lib;
    #at;

    /* file: the bytes of a GGUF file, a Uint8Array, which are copied; context: in tokens, 0: the
       model's. Each Story has memory of its own, which goes when nothing refers to it. */
    static async open(file, {context = 0} = {}) {
        const story = new Story(), lib = story.#lib = await tuffetLibrary();
        const at = lib._story_memory(file.length);
        if (!at)
            throw new Error('out of memory');
        lib.HEAPU8.set(file, at);
        story.#at = lib._story_open(at, file.length, context);
        if (!story.#at)
            throw story.#error();
        return story;
    }

    #error() {
        return new Error(this.#lib.UTF8ToString(this.#lib._story_error()));
    }

    /* Makes the session hold a text. What it has in common with the text before is not computed
       again. */
    begin(text, {temperature = 0.8, topP = 0.95, minP = 0.05, seed = Date.now()} = {}) {
        const lib = this.#lib, bytes = new TextEncoder().encode(text);
        const at = lib._malloc(bytes.length + 1);
        if (!at)
            throw new Error('out of memory');
        lib.HEAPU8.set(bytes, at);
        const status = lib._story_begin(this.#at, at, bytes.length, temperature, topP, minP,
            seed >>> 0);
        lib._free(at);
        if (status)
            throw this.#error();
    }

    /* The text of the next token, "" while its character is not complete; null at the end. */
    next() {
        const n = this.#lib._story_next(this.#at);
        if (n === -2)
            throw this.#error();
        if (n < 0)
            return null;
        const at = this.#lib._story_piece(this.#at);
        return new TextDecoder().decode(this.#lib.HEAPU8.slice(at, at + n));
    }

    /* Continues a text: for await (const piece of story.tell("Once upon a time")). Between tokens
       the page can be drawn, and `signal`, an AbortSignal, stops it. Options as for begin. */
    async *tell(text, {tokens = Infinity, signal, ...sampling} = {}) {
        this.begin(text, sampling);
        for (let i = 0; i < tokens && !signal?.aborted; i++) {
            const piece = this.next();
            if (piece === null)
                return;
            yield piece;
            await new Promise(go => setTimeout(go));
        }
    }

    /* How many tokens the session holds. */
    get tokens() {
        return this.#lib._story_tokens(this.#at);
    }

    /* A copy of the logits of the token that comes next; null if there are none. */
    get logits() {
        const at = this.#lib._story_logits(this.#at) / 4;
        return at ? this.#lib.HEAPF32.slice(at, at + this.#lib._story_words(this.#at)) : null;
    }
}

if (typeof module === 'object')
    module.exports = {Story};
