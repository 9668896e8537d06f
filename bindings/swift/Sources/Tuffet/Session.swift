import CTuffet

/// How to open a session. The default of each option is what tuffet.h says of 0 or NULL.
public struct SessionOptions {
    /// How many tokens fit; 0: the model's context.
    public var capacity = 0
    /// The cache, such as "f16" or "kivi:bits=4".
    public var kv: String?
    /// The name of a prefix of the file.
    public var prefix: String?
    /// 0: one for each fast core.
    public var threads = 0
    /// Tokens of a pass, at most.
    public var batch = 0
    /// How many of the newest tokens of a call keep their logits, their hidden vectors.
    public var logits = 0, hidden = 0
    /// Compute no logits.
    public var noLogits = false
    /// When the session is full, drop old tokens.
    public var slide = false
    /// Copies of states to rewind to.
    public var checkpoints = 0
    /// Draft tokens of a pass.
    public var lookup = 0

    public init() {}
}

/// How the next token is chosen; the default takes the most likely. tuffet.h has the rules. The
/// same seed gives the same tokens on every machine; every draw changes it, and each token lowers
/// minTokens, the number of tokens that come before one that ends generation.
public struct Sampler {
    public var temperature: Float, topK: Int32, topP: Float, minP: Float
    public var repeatPenalty: Float, repeatLast: Int32, seed: UInt64, minTokens: UInt32

    public init(
        temperature: Float = 0, topK: Int32 = 0, topP: Float = 0, minP: Float = 0,
        repeatPenalty: Float = 0, repeatLast: Int32 = 0,
        seed: UInt64 = UInt64.random(in: 0...UInt64.max), minTokens: UInt32 = 0
    ) {
        self.temperature = temperature
        self.topK = topK
        self.topP = topP
        self.minP = minP
        self.repeatPenalty = repeatPenalty
        self.repeatLast = repeatLast
        self.seed = seed
        self.minTokens = minTokens
    }
}

/// One sequence of tokens, its KV cache, and the logits after its last tokens. All of its memory is
/// taken when it is opened, by Model.session. It is closed when nothing refers to it any more.
///
/// One thread at a time may use a session, except cancel(); it need not always be the same thread.
/// What `progress` throws ends the call and comes out of it.
public final class Session {
    public let model: Model
    private let call = Call("the session")
    private let pointer: OpaquePointer
    private let prefix: String?

    init(_ model: Model, _ options: SessionOptions) throws {
        var opts = tft_session_opts()
        opts.size = MemoryLayout<tft_session_opts>.size
        opts.capacity = try count("capacity", options.capacity)
        opts.n_batch = try count("batch", options.batch)
        opts.n_logits = try count("logits", options.logits)
        opts.n_hidden = try count("hidden", options.hidden)
        opts.no_logits = options.noLogits
        opts.n_threads = threadCount(options.threads)
        opts.slide = options.slide
        opts.checkpoints = try count("checkpoints", options.checkpoints)
        opts.lookup = try count("lookup", options.lookup)
        opts.progress = Call.report
        opts.progress_user = call.pointer
        var opened: OpaquePointer?
        try withText("kv", options.kv) { kv in
            try withText("the prefix", options.prefix) { prefix in
                opts.kv = kv
                opts.prefix = prefix
                try check { tft_session_open(&opened, model.pointer, &opts, $0) }
            }
        }
        self.model = model
        prefix = options.prefix
        pointer = opened!
    }

    deinit {
        tft_session_close(pointer)
    }

    private func checked(_ code: tft_status) throws {
        if code != TFT_OK { throw TuffetError(code, tft_session_error(pointer)) }
    }

    /// Appends tokens and computes them.
    public func prefill(_ tokens: [Int32], progress: ((Double) throws -> Void)? = nil) throws {
        try call.alone(reporting: progress) {
            try checked(tft_prefill(pointer, tokens, tokens.count))
        }
    }

    /// Makes the session hold exactly these tokens: keeps the longest common beginning.
    public func sync(_ tokens: [Int32], progress: ((Double) throws -> Void)? = nil) throws {
        try call.alone(reporting: progress) {
            try checked(tft_sync(pointer, tokens, tokens.count))
        }
    }

    /// Makes the session hold a prompt. Tokens of its prefix are not fed.
    private func feed(_ tokens: [Int32], _ progress: ((Double) throws -> Void)?) throws {
        let held = try withText("the prefix", prefix) {
            tft_prefix_held(model.pointer, $0, tokens, tokens.count)
        }
        if held < tokens.count {
            try sync(Array(tokens[held...]), progress: progress)
        } else {
            try rewind(to: 0)
            try prefill([], progress: progress)
        }
    }

    /// Appends one token and computes it.
    public func decode(_ token: Int32) throws {
        try call.alone { try checked(tft_decode(pointer, token)) }
    }

    /// Drops every token from position `pos` on.
    public func rewind(to pos: Int) throws {
        if pos < 0 { throw TuffetError(.argument, "position \(pos)") }
        try call.alone { try checked(tft_rewind(pointer, pos)) }
    }

    /// Ends the call that feeds the session, or else the next one, with the status cancelled. Any
    /// thread may call it.
    public func cancel() {
        tft_cancel(pointer)
    }

    /// How many tokens it holds.
    public func pos() throws -> Int {
        return try call.alone { tft_pos(pointer) }
    }

    /// How many tokens fit.
    public func capacity() throws -> Int {
        return try call.alone { tft_capacity(pointer) }
    }

    /// A copy of the tokens that it holds.
    public func tokens() throws -> [Int32] {
        return try call.alone {
            Array(UnsafeBufferPointer(start: tft_tokens(pointer), count: tft_pos(pointer)))
        }
    }

    /// A copy of the logits after the newest token (0), the one before it (1), ... of the last
    /// call; nil if they were not kept.
    public func logits(_ back: Int = 0) throws -> [Float]? {
        let back = Int(try count("back", back))
        return try call.alone { floats(tft_logits(pointer, back), model.info.vocab) }
    }

    /// A copy of the hidden vector of the newest token, ...; nil if it was not kept.
    public func hidden(_ back: Int = 0) throws -> [Float]? {
        let back = Int(try count("back", back))
        return try call.alone { floats(tft_hidden(pointer, back), model.info.embedding) }
    }

    private func floats(_ x: UnsafePointer<Float>?, _ n: Int) -> [Float]? {
        return x.map { Array(UnsafeBufferPointer(start: $0, count: n)) }
    }

    /// The k most likely next tokens, and the logarithms of their probabilities.
    public func likeliest(_ k: Int) throws -> [(token: Int32, logprob: Float)] {
        let k = min(Int(try count("k", k)), model.info.vocab)
        var choices = [tft_choice](repeating: tft_choice(), count: k)
        let n = try call.alone { tft_likeliest(pointer, nil, &choices, k) }
        return choices.prefix(n).map { (token: $0.id, logprob: $0.logprob) }
    }

    /// Chooses the next token, which is not fed; nil: there are no logits, or no token may come.
    public func sample(_ sampler: inout Sampler) throws -> Int32? {
        var z = tft_sampler()
        z.temperature = sampler.temperature
        z.top_k = sampler.topK
        z.top_p = sampler.topP
        z.min_p = sampler.minP
        z.repeat_penalty = sampler.repeatPenalty
        z.repeat_last = sampler.repeatLast
        z.seed = sampler.seed
        z.min_tokens = sampler.minTokens
        let token = try call.alone { tft_sample(&z, pointer) }
        sampler.seed = z.seed
        sampler.minTokens = z.min_tokens
        return token < 0 ? nil : token
    }

    /// Makes the session hold a prompt, and continues it with at most maxTokens tokens. The
    /// beginning of the prompt that the session holds already is not computed again. progress: of
    /// computing the prompt.
    public func generate(
        _ prompt: String, maxTokens: Int = Int.max, sampler: Sampler = Sampler(),
        progress: ((Double) throws -> Void)? = nil
    ) throws -> Generation {
        return try generate(
            model.tokenize(prompt), maxTokens: maxTokens, sampler: sampler, progress: progress)
    }

    /// The same for tokens. goesOn: the last one is text, so that a space may follow.
    public func generate(
        _ prompt: [Int32], maxTokens: Int = Int.max, sampler: Sampler = Sampler(),
        goesOn: Bool = true, progress: ((Double) throws -> Void)? = nil
    ) throws -> Generation {
        try feed(prompt, progress)
        return Generation(self, maxTokens, sampler, goesOn)
    }

    /// The answer to a conversation by the chat template of the file; see Model.prompt.
    public func chat(
        _ messages: [Message], maxTokens: Int = Int.max, sampler: Sampler = Sampler(),
        variables: String? = nil, progress: ((Double) throws -> Void)? = nil
    ) throws -> Generation {
        let prompt = try model.prompt(messages, variables: variables)
        return try generate(
            prompt.tokens, maxTokens: maxTokens, sampler: sampler, goesOn: prompt.goesOn,
            progress: progress)
    }

    /// Saves the session to a file, which gets its name when it is complete.
    public func save(_ path: String) throws {
        try withText("the path", path) { path in
            try call.alone { try check { tft_session_save(pointer, nil, path, $0) } }
        }
    }

    /// Replaces what it holds by a saved session of the same model, cache and prefix. After an
    /// error it is as it was.
    public func load(_ path: String) throws {
        try withText("the path", path) { path in
            try call.alone { try check { tft_session_load(pointer, nil, path, $0) } }
        }
    }
}

/// A text that a session generates.
public final class Generation {
    /// Why a text ended: the model ended it, maxTokens tokens have come, the session is full.
    public enum Stopped { case end, length, full }

    private let session: Session
    private var text: TextState
    private var left: Int
    private var sampler: Sampler
    /// nil before the end of the text.
    public private(set) var stopped: Stopped?

    init(_ session: Session, _ maxTokens: Int, _ sampler: Sampler, _ goesOn: Bool) {
        self.session = session
        self.sampler = sampler
        left = maxTokens
        text = TextState(session.model, goesOn: goesOn)
    }

    /// Computes more text, whole characters, as it comes; nil at its end.
    public func next() throws -> String? {
        while stopped == nil {
            let piece = try step()
            if !piece.isEmpty { return piece }
        }
        return nil
    }

    private func step() throws -> String {
        if left <= 0 {
            stopped = .length
            return text.end()
        }
        guard let token = try session.sample(&sampler) else {
            throw TuffetError(.argument, "no token may come next")
        }
        if session.model.ends(token) {
            stopped = .end
            return text.end()
        }
        let piece = text.push(token)
        left -= 1
        do {
            try session.decode(token)
        } catch let error as TuffetError where error.status == .full {
            stopped = .full
            return piece + text.end()
        }
        return piece
    }
}
