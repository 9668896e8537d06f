package tuffet

/** Receives how far a call is, from 0 to 1. The JNI library calls it. */
internal interface Progress {
    fun report(done: Double)
}

internal fun progressOf(call: ((Double) -> Unit)?): Progress? =
    if (call == null) null else object : Progress {
        override fun report(done: Double) = call(done)
    }

/** Numbers that C reads as unsigned. */
internal fun count(what: String, n: Int): Int {
    if (n < 0) throw TuffetException(Status.ARGUMENT, "$what is $n, below 0")
    return n
}

/**
 * The functions of the JNI library, jni/model.c and jni/session.c. Text is bytes of UTF-8: JNI's
 * own strings have other bytes for emojis.
 */
internal object Native {
    init {
        val path = System.getProperty("tuffet.jni") // of the file, if it is not where Java looks
        if (path == null) System.loadLibrary("tuffet-jni") else System.load(path)
    }

    /** Bytes of the state of [push]: struct tft_text. */
    const val TEXT_BYTES = 16

    @JvmStatic external fun text(which: Int): ByteArray

    @JvmStatic external fun modelOpen(
        path: ByteArray?, fd: Int, offset: Long, bytes: Long, tokenizer: ByteArray?, weights: Int,
        vocabOnly: Boolean, threads: Int, device: ByteArray?, gpuLayers: Int
    ): Long
    @JvmStatic external fun modelClose(model: Long)
    @JvmStatic external fun modelText(model: Long, which: Int): ByteArray?
    @JvmStatic external fun modelNumbers(model: Long): LongArray

    @JvmStatic external fun tokenize(
        model: Long, text: ByteArray, bos: Boolean, eos: Boolean, special: Boolean, goesOn: Boolean
    ): IntArray
    @JvmStatic external fun push(model: Long, state: ByteArray, token: Int): ByteArray
    @JvmStatic external fun token(model: Long, which: Int): Int
    @JvmStatic external fun ends(model: Long, token: Int): Boolean
    @JvmStatic external fun prompt(
        model: Long, roles: Array<ByteArray>, texts: Array<ByteArray>, variables: ByteArray?,
        time: Long, goesOn: BooleanArray
    ): IntArray

    @JvmStatic external fun sessionOpen(
        model: Long, capacity: Int, batch: Int, logits: Int, hidden: Int, noLogits: Boolean,
        threads: Int, slide: Boolean, kv: ByteArray?, prefix: ByteArray?, checkpoints: Int,
        lookup: Int
    ): Long
    @JvmStatic external fun sessionClose(session: Long)
    @JvmStatic external fun feed(session: Long, tokens: IntArray, how: Int, progress: Progress?)
    @JvmStatic external fun decode(session: Long, token: Int): Boolean
    @JvmStatic external fun rewind(session: Long, pos: Int)
    @JvmStatic external fun cancel(session: Long)
    @JvmStatic external fun sessionNumber(session: Long, which: Int): Long
    @JvmStatic external fun tokens(session: Long): IntArray
    @JvmStatic external fun vector(session: Long, back: Int, hidden: Boolean): FloatArray?
    @JvmStatic external fun likeliest(session: Long, logprobs: FloatArray): IntArray
    @JvmStatic external fun sample(
        session: Long, temperature: Float, topK: Int, topP: Float, minP: Float,
        repeatPenalty: Float, repeatLast: Int, state: LongArray
    ): Int
    @JvmStatic external fun save(session: Long, path: ByteArray)
    @JvmStatic external fun load(session: Long, path: ByteArray)
    @JvmStatic external fun copy(to: Long, from: Long)

    @JvmStatic external fun embedderOpen(
        model: Long, pooling: Int, raw: Boolean, dims: Int, maxText: Int, threads: Int
    ): Long
    @JvmStatic external fun embedderClose(embedder: Long)
    @JvmStatic external fun embedderWidth(embedder: Long): Int
    @JvmStatic external fun embedderCancel(embedder: Long)
    @JvmStatic external fun embed(embedder: Long, tokens: IntArray, progress: Progress?): FloatArray
}
