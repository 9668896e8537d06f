import CTuffet
import Foundation

/// How to hold weights that are quantized in the file: in its codes, or expanded to floats.
public enum Weights {
    case stored, f32, f16, bf16

    var raw: tft_weights {
        switch self {
        case .stored: return TFT_WEIGHTS_STORED
        case .f32: return TFT_WEIGHTS_F32
        case .f16: return TFT_WEIGHTS_F16
        case .bf16: return TFT_WEIGHTS_BF16
        }
    }
}

/// A message of a conversation. The role is "system", "user", "assistant", ...
public struct Message {
    public var role, content: String

    public init(role: String, content: String) {
        self.role = role
        self.content = content
    }
}

/// The tokens of a conversation up to the answer. goesOn: the last one is text.
public struct Prompt {
    public let tokens: [Int32]
    public let goesOn: Bool
}

/// What a model is. Dimensions other than vocab are 0 if only the tokenizer is open.
public struct ModelInfo {
    /// The architecture, such as "llama", and general.name of the file, or "".
    public let arch, name: String
    /// The number of weights, and the bytes of weights that computing one token reads.
    public let params, weightBytes: UInt64
    /// The context is the most tokens of a session; prefix is the positions of the model's prefix,
    /// which the context does not count.
    public let vocab, context, embedding, layers, prefix: Int
    /// The model makes embeddings, and has no sessions.
    public let encoder: Bool
}

/// An open model: weights, tokenizer, architecture. It never changes, and all threads may use it.
/// It is closed when nothing refers to it any more: its sessions and embedders do.
///
/// The file is mapped. While the model is open, the file may not be truncated or written to; to
/// replace it, rename a new file over it.
public final class Model {
    let pointer: OpaquePointer
    /// What the model is.
    public let info: ModelInfo

    /// Opens a GGUF file, or a llama2.c checkpoint, for which `tokenizer` is the vocabulary file.
    public init(
        _ path: String, tokenizer: String? = nil, weights: Weights = .stored,
        vocabOnly: Bool = false, threads: Int = 0, device: String? = nil, gpuLayers: Int = 0
    ) throws {
        var opts = tft_model_opts()
        opts.size = MemoryLayout<tft_model_opts>.size
        opts.weights = weights.raw
        opts.vocab_only = vocabOnly
        opts.n_threads = threadCount(threads)
        opts.gpu_layers = try count("gpuLayers", gpuLayers)
        var opened: OpaquePointer?
        try withText("the path", path) { path in
            try withText("the tokenizer's path", tokenizer) { tokenizer in
                try withText("the device", device) { device in
                    opts.tokenizer = tokenizer
                    opts.device = device
                    try check { tft_model_open(&opened, path, &opts, $0) }
                }
            }
        }
        let model = opened!
        pointer = model
        var i = tft_model_info()
        i.size = MemoryLayout<tft_model_info>.size
        tft_model_describe(model, &i)
        info = ModelInfo(
            arch: String(cString: i.arch), name: String(cString: i.name), params: i.n_params,
            weightBytes: i.weight_bytes, vocab: Int(i.n_vocab), context: Int(i.n_ctx),
            embedding: Int(i.n_embd), layers: Int(i.n_layer), prefix: Int(i.n_prefix),
            encoder: i.encoder)
    }

    deinit {
        tft_model_close(pointer)
    }

    /// The version of the library, such as "1.2.3".
    public static var version: String { return String(cString: tft_version()) }

    /// The best set of kernels that this CPU has, such as "avx512" or "neon".
    public static var cpu: String { return String(cString: tft_cpu_name()) }

    /// The chat template, a program in Jinja; nil: the model has none.
    public var chatTemplate: String? {
        return tft_model_chat_template(pointer).map { String(cString: $0) }
    }

    /// The tokens for the beginning and the end of a sequence, -1 if there is none.
    public var bos: Int32 { return tft_token_bos(pointer) }
    public var eos: Int32 { return tft_token_eos(pointer) }

    /// Whether generation stops at this token.
    public func ends(_ token: Int32) -> Bool {
        return tft_token_ends(pointer, token)
    }

    /// The tokens of a text. bos: begin with BOS, if the vocabulary asks for one. eos: end with
    /// EOS, if the model wants it after a text to embed. special: names such as <|im_end|> become
    /// special tokens; not for text of users. goesOn: the text continues another one.
    public func tokenize(
        _ text: String, bos: Bool = true, eos: Bool = false, special: Bool = false,
        goesOn: Bool = false
    ) throws -> [Int32] {
        var flags: UInt32 = 0
        if bos { flags |= UInt32(TFT_ADD_BOS) }
        if eos { flags |= UInt32(TFT_ADD_EOS) }
        if special { flags |= UInt32(TFT_PARSE_SPECIAL) }
        if goesOn { flags |= UInt32(TFT_CONTINUE) }
        let length = text.utf8.count
        var n = length / 2 + 16 // enough for most texts; if not, the library says how many
        while true {
            var ids = [Int32](repeating: 0, count: n)
            let code = tft_tokenize(pointer, text, length, flags, &ids, ids.count, &n)
            if code == TFT_OK { return Array(ids.prefix(n)) }
            if code != TFT_ERR_FULL { throw TuffetError(code, nil) }
        }
    }

    /// The text of tokens. Special tokens have none; bytes that are no character become U+FFFD.
    /// goesOn: the text continues another one, so a space at its beginning stays.
    public func detokenize(_ tokens: [Int32], goesOn: Bool = false) -> String {
        var text = TextState(self, goesOn: goesOn)
        return tokens.map { text.push($0) }.joined() + text.end()
    }

    /// A conversation by the chat template of the file, up to the answer. variables: an object of
    /// JSON with further variables of the template, such as #"{"enable_thinking": false}"#.
    public func prompt(_ messages: [Message], variables: String? = nil) throws -> Prompt {
        guard let source = tft_model_chat_template(pointer) else {
            throw TuffetError(.unsupported, "the model has no chat template")
        }
        var template: OpaquePointer?
        try check { tft_chat_open(&template, source, strlen(source), $0) }
        defer { tft_chat_close(template) }
        let raw = shim_messages(messages.count)
        defer { shim_free(raw, messages.count) }
        for (i, message) in messages.enumerated() {
            let content = message.content
            let copied = try withText("a role", message.role) {
                raw != nil && shim_set(raw, i, $0, content, content.utf8.count)
            }
            if !copied { throw TuffetError(TFT_ERR_NOMEM, nil) }
        }

        var input = tft_chat_input()
        input.size = MemoryLayout<tft_chat_input>.size
        input.message = UnsafePointer(raw)
        input.n_message = messages.count
        input.has_time = true
        let now = Date()
        input.time = Int64(now.timeIntervalSince1970)
            + Int64(TimeZone.current.secondsFromGMT(for: now))
        var text = tft_chat_text()
        defer { tft_chat_text_free(&text) }
        let json = variables.map { Array($0.utf8CString) } ?? []
        try json.withUnsafeBufferPointer { json in
            if variables != nil {
                input.json = json.baseAddress
                input.n_json = json.count - 1 // without its NUL
            }
            try check { tft_chat_render_for(&text, template, pointer, &input, $0) }
            var said = 0, result = 0
            try check { tft_chat_dropped(&said, &result, &text, &input, $0) }
            if said >= 0 && said < messages.count { // or SIZE_MAX
                throw TuffetError(.argument, "message \(said): the chat template drops it")
            }
        }

        var n = 0
        try check { _ in tft_chat_tokenize(&text, pointer, nil, 0, &n, nil) }
        var ids = [Int32](repeating: 0, count: n)
        var goesOn = false
        try check { _ in tft_chat_tokenize(&text, pointer, &ids, ids.count, &n, &goesOn) }
        return Prompt(tokens: ids, goesOn: goesOn)
    }

    /// Opens a session; see Session for the options.
    public func session(_ options: SessionOptions = SessionOptions()) throws -> Session {
        return try Session(self, options)
    }

    /// Opens an embedder; see Embedder.
    public func embedder(
        pooling: Pooling = .ofFile, raw: Bool = false, dims: Int = 0, maxText: Int = 0,
        threads: Int = 0
    ) throws -> Embedder {
        return try Embedder(self, pooling, raw, dims, maxText, threads)
    }
}

/// Turns tokens into text as they come: bytes wait until their character is complete.
struct TextState {
    private let model: Model
    private var state = tft_text()

    init(_ model: Model, goesOn: Bool) {
        self.model = model
        state.started = goesOn
    }

    /// The text that a token completes. A negative one, which would end the text, has none.
    mutating func push(_ token: Int32) -> String {
        return token < 0 ? "" : put(token)
    }

    mutating func end() -> String {
        return put(-1)
    }

    private mutating func put(_ token: Int32) -> String {
        var out = [CChar](repeating: 0, count: Int(TFT_TEXT_MAX))
        let n = tft_text_push(&state, model.pointer, token, &out)
        return out.withUnsafeBytes { String(decoding: $0.prefix(n), as: UTF8.self) }
    }
}
