/* The types of tuffet for Node.js. tuffet.h says more about each option and call. */

/* An Error of the library has a `code`, the name of the status in tuffet.h ("TFT_ERR_FORMAT"), and
   with TFT_ERR_FORMAT the `offset` of the byte where reading stopped, with TFT_ERR_IO the negative
   `errno`. Arguments of a wrong type are a TypeError, most with code "TFT_ERR_ARG". Use after
   close() has code "CLOSED", use of a session that computes "BUSY". */

export interface ModelOptions {
    /** The vocabulary file of a llama2.c model. */
    tokenizer?: string;
    /** "stored", or another to expand quantized weights. */
    weights?: 'stored' | 'f32' | 'f16' | 'bf16';
    /** Open the tokenizer alone; such a model has no sessions. */
    vocabOnly?: boolean;
    /** For packing and expanding weights; 0: one for each fast core. */
    threads?: number;
    /** "cpu", "cuda", "cuda:1", "mpi". */
    device?: string;
    /** How many of the last layers the device computes; 0: all. */
    gpuLayers?: number;
    /** The most bytes of experts in memory; 0: by the size of the file. */
    expertsBytes?: number | bigint;
    /** Open the block that predicts a further token, too: draft tokens of sessions with a lookup. */
    predictor?: boolean;
}

export interface ModelInfo {
    readonly arch: string;
    readonly name: string;
    readonly weights: string;
    readonly pooling: string;
    readonly addEos: boolean;
    readonly encoder: boolean;
    /** The cache of a session without another. */
    readonly kv: string;
    readonly prefixBos: boolean;
    readonly nParams: number;
    readonly weightBytes: number;
    readonly matmulMacs: number;
    readonly kvWidth: number;
    readonly nVocab: number;
    readonly nCtx: number;
    readonly nEmbd: number;
    readonly nLayer: number;
    readonly nHead: number;
    readonly nHeadKv: number;
    readonly headDim: number;
    readonly nFf: number;
    readonly nPrefix: number;
    readonly stateBytes: number;
    readonly nExpert: number;
    readonly nExpertUsed: number;
    readonly nDevice: number;
}

export interface Prefix {
    readonly name: string;
    readonly system: string | null;
    readonly tokens: Int32Array;
    readonly positions: number;
}

/** A conversation as the model was trained to read it. */
export interface Prompt {
    text: string;
    tokens: Int32Array;
    /** The last token is text: an answer may begin with a space. */
    goesOn: boolean;
}

export interface Message {
    role: string;
    content: unknown;
    [more: string]: unknown;
}

export type Tokens = Int32Array | readonly number[];

export interface SessionOptions {
    /** How many tokens fit; 0: the model's context. */
    capacity?: number;
    /** The KV cache: "f16", "i8", "kivi:bits=4", ... */
    kv?: string;
    /** The name of a prefix of the file. */
    prefix?: string;
    /** At most 1024; 0: one for each fast core. */
    threads?: number;
    /** Tokens in one pass, at most; 0: 512. */
    nBatch?: number;
    /** How many of the newest tokens of a call keep their logits; 0: 1. */
    nLogits?: number;
    /** How many of them keep their hidden vectors, for embeddings. */
    nHidden?: number;
    /** Compute no logits, for hidden vectors alone. */
    noLogits?: boolean;
    /** Drop old tokens when it is full. */
    slide?: boolean;
    /** Copies of the state to which the session can go back; 0: 4. */
    checkpoints?: number;
    /** How many guesses of the next tokens a pass may compute, at most 14. */
    lookup?: number;
}

export interface SamplerOptions {
    /** 0: the most likely token. */
    temperature?: number;
    topK?: number;
    topP?: number;
    minP?: number;
    repeatPenalty?: number;
    repeatLast?: number;
    /** How many tokens come before one that ends the text. */
    minTokens?: number;
    /** Further steps, which tuffet.h defines; 0: off, or the default. */
    dryMultiplier?: number;
    dryBase?: number;
    dryAllowedLength?: number;
    dryLast?: number;
    xtcProbability?: number;
    xtcThreshold?: number;
    typicalP?: number;
    topNSigma?: number;
    mirostatTau?: number;
    mirostatEta?: number;
    dynatempRange?: number;
    dynatempExponent?: number;
    /** The same seed gives the same tokens on every machine; without one they differ. */
    seed?: number | bigint;
    /** What the text may be. */
    grammar?: Grammar;
}

export interface Stoppable {
    /** When it aborts, the call fails with its reason. */
    signal?: AbortSignal;
}

export interface GenerateOptions extends SamplerOptions, Stoppable {
    /** How many tokens may come. */
    maxTokens?: number;
    /** The prompt ends in text, so that a space may follow; default: true. */
    goesOn?: boolean;
}

/** A model file. It never changes; any number of sessions may share it. */
export class Model {
    private constructor();
    /** Opens a GGUF file or a llama2.c checkpoint, on another thread. */
    static open(path: string | URL, options?: ModelOptions): Promise<Model>;
    readonly info: ModelInfo;
    /** Jinja source, or null. */
    readonly chatTemplate: string | null;
    /** The named prefixes of the file, for SessionOptions.prefix. */
    readonly prefixes: Prefix[];
    /** bos: begin with BOS if the model was trained with it (default: true). special: names such as
        <|im_end|> become special tokens; not for text that a user wrote. goesOn: the text continues
        another. */
    tokenize(text: string, options?: {bos?: boolean, special?: boolean, goesOn?: boolean}):
        Int32Array;
    /** The text of tokens; special tokens have none. goesOn: they continue a text. */
    detokenize(tokens: Iterable<number>, options?: {goesOn?: boolean}): string;
    /** The text that each token completes, never a part of a character, and then what waits. */
    texts(tokens: Iterable<number>, options?: {goesOn?: boolean}): Generator<string, void>;
    /** The bytes of a token, perhaps a part of a character; special: of its name. */
    tokenBytes(token: number, options?: {special?: boolean}): Uint8Array;
    readonly bos: number | null;
    readonly eos: number | null;
    /** Whether generation stops at this token. */
    ends(token: number): boolean;
    /** A conversation by the chat template of the file. variables: more names of the template, such
        as tools. What messages say cannot become special tokens. A message of the system or a user
        that the template drops is an error, a result of a tool is a warning of the process. */
    prompt(messages: readonly Message[], variables?: Record<string, unknown>): Prompt;
    /** Texts that the rule `root` of a GBNF grammar matches. The first grammar of a model takes up
        to 0.1 s, the vocabulary's. */
    grammar(gbnf: string): Grammar;
    /** Texts that a regular expression matches as a whole. */
    regex(expression: string): Grammar;
    /** JSON that is valid by a JSON Schema. */
    schema(schema: object | boolean): Grammar;
    session(options?: SessionOptions): Session;
    /** Feeds several sessions in one pass. */
    batch(options?: {nSessions?: number, nTokens?: number, threads?: number}): Batch;
    /** Frees it and what was made of it, once nothing of that computes. Twice is fine. */
    close(): void;
}

/** A sequence of tokens, its KV cache, and the logits after its last tokens. While it computes, any
    other use but close() is an error. */
export class Session {
    private constructor();
    readonly model: Model;
    /** Appends tokens, or one, and computes them on another thread. */
    feed(tokens: Tokens | number, options?: Stoppable): Promise<void>;
    /** Makes the session hold exactly these tokens; the longest common beginning is kept. */
    sync(tokens: Tokens, options?: Stoppable): Promise<void>;
    /** Drops every token from position pos on. */
    rewind(pos: number): void;
    /** With a cache of prefill=prompt: what the session holds is the prompt. */
    promptEnd(): void;
    /** Computes with n threads, at most as many as it was opened with. */
    useThreads(n: number): void;
    /** How many tokens it holds, and how many fit. */
    readonly pos: number;
    readonly capacity: number;
    /** How many tokens were computed as guesses, and then came. */
    readonly guessed: number;
    /** A copy of the tokens. */
    readonly tokens: Int32Array;
    /** Why the last text has ended; null: it has not. */
    readonly stopped: 'end' | 'length' | 'full' | null;
    /** A copy of the logits [nVocab] after the newest token, the one before it (1), ... of the last
        call; null if they were not kept. The copy is the caller's, and never changes. */
    logits(back?: number): Float32Array | null;
    /** The same of the hidden vector [nEmbd]. */
    hidden(back?: number): Float32Array | null;
    /** The k most likely next tokens, and the logarithms of their probabilities. */
    likeliest(k: number): {token: number, logprob: number}[];
    /** The logarithm of the probability that this token comes next; NaN without logits. */
    logprob(token: number): number;
    /** The next token, which is not fed; null if there are no logits, or none may come. */
    sample(sampler: Sampler): number | null;
    /** Continues a prompt: text as it comes. Tokens that the session already holds are not computed
        again. It ends where the model ends the text, after maxTokens, or where the session is
        full; `stopped` then says which. From the first piece to the end, or to `break`, nothing
        else may feed the session. */
    generate(prompt: string | Tokens, options?: GenerateOptions): AsyncGenerator<string, void>;
    /** The answer to a conversation by the file's chat template. */
    chat(messages: readonly Message[],
        options?: GenerateOptions & {variables?: Record<string, unknown>}):
        AsyncGenerator<string, void>;
    /** Saves it to a file, which gets its name when it is complete. */
    save(path: string | URL): Promise<void>;
    /** Replaces what it holds by a saved session of the same model, cache and prefix. */
    load(path: string | URL): Promise<void>;
    /** What save() writes. */
    dump(): Uint8Array;
    /** load() of what dump() gave. */
    restore(data: Uint8Array): void;
    /** Replaces what it holds by what another session of the model holds. */
    copyFrom(other: Session): void;
    /** What it computes ends with an error; then its memory is freed. */
    close(): void;
}

/** Feeds several sessions of a model in one pass, which reads the weights once. Each gets the bits
    that it would get alone. */
export class Batch {
    private constructor();
    /** Appends to each session its tokens. The map has the errors of failed ones. */
    step(fed: ReadonlyMap<Session, Tokens>): Promise<Map<Session, Error>>;
    close(): void;
}

/** What a text may be; any number of sessions may use it. */
export class Grammar {
    private constructor();
    close(): void;
}

/** How the next token is chosen; without options the most likely. */
export class Sampler {
    constructor(options?: SamplerOptions);
}
