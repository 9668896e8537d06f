import CTuffet

/// How the hidden vectors of a text's tokens become one vector. ofFile: as the file says, or the
/// mean.
public enum Pooling {
    case ofFile, mean, last, cls

    var raw: tft_pooling {
        switch self {
        case .ofFile: return TFT_POOLING_NONE
        case .mean: return TFT_POOLING_MEAN
        case .last: return TFT_POOLING_LAST
        case .cls: return TFT_POOLING_CLS
        }
    }
}

/// Makes a vector of each text. Model.embedder opens it. raw: vectors as computed, not brought to
/// length 1. dims: keep so many first numbers, of a model that was trained for it; 0: all. maxText:
/// tokens of a text, at most. It is closed when nothing refers to it any more.
///
/// One thread at a time may use it, except cancel().
public final class Embedder {
    public let model: Model
    /// Numbers of a vector.
    public let width: Int
    private let call = Call("the embedder")
    private let pointer: OpaquePointer

    init(
        _ model: Model, _ pooling: Pooling, _ raw: Bool, _ dims: Int, _ maxText: Int, _ threads: Int
    ) throws {
        var opts = tft_embedder_opts()
        opts.size = MemoryLayout<tft_embedder_opts>.size
        opts.pooling = pooling.raw
        opts.raw = raw
        opts.n_dims = try count("dims", dims)
        opts.max_text = try count("maxText", maxText)
        opts.n_threads = threadCount(threads)
        opts.progress = Call.report
        opts.progress_user = call.pointer
        var opened: OpaquePointer?
        try check { tft_embedder_open(&opened, model.pointer, &opts, $0) }
        let embedder = opened!
        pointer = embedder
        self.model = model
        var info = tft_embedder_info()
        info.size = MemoryLayout<tft_embedder_info>.size
        tft_embedder_describe(embedder, &info)
        width = Int(info.width)
    }

    deinit {
        tft_embedder_close(pointer)
    }

    /// The vector of a text, with the special tokens that the model wants.
    public func embed(
        _ text: String, progress: ((Double) throws -> Void)? = nil
    ) throws -> [Float] {
        return try embed(model.tokenize(text, eos: true), progress: progress)
    }

    /// The vector of a text's tokens, with all special tokens.
    public func embed(
        _ tokens: [Int32], progress: ((Double) throws -> Void)? = nil
    ) throws -> [Float] {
        var out = [Float](repeating: 0, count: width)
        try call.alone(reporting: progress) {
            let code: tft_status = tokens.withUnsafeBufferPointer { ids in
                var text = tft_text_tokens()
                text.ids = ids.baseAddress
                text.n = ids.count
                return tft_embed(pointer, &text, 1, &out)
            }
            if code != TFT_OK { throw TuffetError(code, tft_embedder_error(pointer)) }
        }
        return out
    }

    /// Ends the call of another thread, or else the next one, with the status cancelled.
    public func cancel() {
        tft_embedder_cancel(pointer)
    }
}
