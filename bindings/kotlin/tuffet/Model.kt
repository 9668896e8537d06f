package tuffet

import java.io.Closeable
import java.util.TimeZone
import java.util.concurrent.locks.ReentrantReadWriteLock
import kotlin.concurrent.read
import kotlin.concurrent.write

/** How to hold weights that are quantized in the file: in its codes, or expanded to floats. */
enum class Weights { STORED, F32, F16, BF16 } // in the order of enum tft_weights

/** A message of a conversation. [role]: "system", "user", "assistant", ... */
class Message(val role: String, val content: String)

/** What a model is. Dimensions other than [vocab] are 0 if only the tokenizer is open. */
class ModelInfo internal constructor(
    /** The architecture, such as "llama", and general.name of the file, or "". */
    val arch: String,
    val name: String,
    numbers: LongArray
) {
    /** Number of weights. */
    val params = numbers[0]
    /** Bytes of weights that computing one token reads. */
    val weightBytes = numbers[1]
    val vocab = numbers[2].toInt()
    /** The most tokens of a session. */
    val context = numbers[3].toInt()
    val embedding = numbers[4].toInt()
    val layers = numbers[5].toInt()
    /** Positions of the model's prefix, which [context] does not count. */
    val prefix = numbers[6].toInt()
    /** It makes embeddings, and has no sessions. */
    val encoder = numbers[7] != 0L
}

/** The tokens of a conversation up to the answer. [goesOn]: the last one is text. */
class Prompt internal constructor(val tokens: IntArray, val goesOn: Boolean)

/**
 * An open model: weights, tokenizer, architecture. It never changes, and all threads may use it.
 *
 * The file is mapped. While the model is open, the file may not be truncated or written to; to
 * replace it, rename a new file over it.
 */
class Model private constructor(private var pointer: Long) : Closeable {
    private val lock = ReentrantReadWriteLock() // for reading by calls, for writing by close()
    private var users = 0 // open sessions and embedders, guarded by `count`
    private val count = Any()

    /** Opens a GGUF file, or a llama2.c checkpoint, which needs [tokenizer], a vocabulary file. */
    @JvmOverloads
    constructor(
        path: String,
        tokenizer: String? = null,
        weights: Weights = Weights.STORED,
        vocabOnly: Boolean = false,
        threads: Int = 0,
        device: String? = null,
        gpuLayers: Int = 0
    ) : this(
        Native.modelOpen(
            path.toByteArray(), -1, 0, 0, tokenizer?.toByteArray(), weights.ordinal, vocabOnly,
            threads, device?.toByteArray(), count("gpuLayers", gpuLayers)
        )
    )

    companion object {
        /** The version of the library, such as "1.2.3". */
        @JvmStatic
        val version: String get() = String(Native.text(0))

        /** The best set of kernels that this CPU has, such as "avx512" or "neon". */
        @JvmStatic
        val cpu: String get() = String(Native.text(1))

        /**
         * Opens [bytes] bytes from byte [offset] of an open file, such as an uncompressed asset of
         * an Android package; 0 bytes: to the end of the file. The descriptor may be closed
         * afterwards. [offset]: a multiple of 32.
         */
        @JvmStatic
        @JvmOverloads
        fun open(
            fd: Int,
            offset: Long = 0,
            bytes: Long = 0,
            weights: Weights = Weights.STORED,
            threads: Int = 0
        ): Model = Model(
            Native.modelOpen(
                null, fd, offset, bytes, null, weights.ordinal, false, threads, null, 0
            )
        )
    }

    /** What the model is, also after [close]. */
    val info = ModelInfo(
        String(Native.modelText(pointer, 0)!!), String(Native.modelText(pointer, 1)!!),
        Native.modelNumbers(pointer)
    )

    internal fun <T> call(function: (Long) -> T): T = lock.read { function(pointer) }

    /** Opens a session or an embedder, which [leave] closes. */
    internal fun enter(open: (Long) -> Long): Long = call {
        val opened = open(it)
        synchronized(count) { users++ }
        opened
    }

    internal fun leave() = synchronized(count) { users-- }

    /** Closes the model; fails while one of its sessions or embedders is open. Twice is fine. */
    override fun close() = lock.write {
        val n = synchronized(count) { users }
        if (n > 0) {
            throw TuffetException(Status.BUSY, "the model has open sessions or embedders: $n")
        }
        Native.modelClose(pointer)
        pointer = 0
    }

    /** The chat template, a program in Jinja; null: the model has none. */
    val chatTemplate: String? get() = call { Native.modelText(it, 2) }?.let { String(it) }

    /** The tokens for the beginning and the end of a sequence, -1 if there is none. */
    val bos: Int get() = call { Native.token(it, 0) }
    val eos: Int get() = call { Native.token(it, 1) }

    /** Whether generation stops at this token. */
    fun ends(token: Int): Boolean = call { Native.ends(it, token) }

    /**
     * The tokens of a text. [bos]: begin with BOS, if the vocabulary asks for one. [eos]: end with
     * EOS, if the model wants it after a text to embed. [special]: names such as <|im_end|> become
     * special tokens; not for text of users. [goesOn]: the text continues another one.
     */
    @JvmOverloads
    fun tokenize(
        text: String,
        bos: Boolean = true,
        eos: Boolean = false,
        special: Boolean = false,
        goesOn: Boolean = false
    ): IntArray = call { Native.tokenize(it, text.toByteArray(), bos, eos, special, goesOn) }

    /**
     * The text of tokens. Special tokens have none; bytes that are no character become U+FFFD.
     * [goesOn]: the text continues another one, so a space at its beginning stays.
     */
    @JvmOverloads
    fun detokenize(tokens: IntArray, goesOn: Boolean = false): String {
        val text = TextState(this, goesOn)
        val out = StringBuilder()
        for (token in tokens) out.append(text.push(token))
        return out.append(text.end()).toString()
    }

    /**
     * A conversation by the chat template of the file, up to the answer. [variables]: an object of
     * JSON with further variables of the template, such as """{"enable_thinking": false}""".
     */
    @JvmOverloads
    fun prompt(messages: List<Message>, variables: String? = null): Prompt {
        val now = System.currentTimeMillis()
        val goesOn = BooleanArray(1)
        val tokens = call {
            Native.prompt(
                it,
                Array(messages.size) { i -> messages[i].role.toByteArray() },
                Array(messages.size) { i -> messages[i].content.toByteArray() },
                variables?.toByteArray(),
                Math.floorDiv(now + TimeZone.getDefault().getOffset(now), 1000L),
                goesOn
            )
        }
        return Prompt(tokens, goesOn[0])
    }

    /** Opens a session; see [Session] for the options. Close it before the model. */
    @JvmOverloads
    fun session(
        capacity: Int = 0,
        kv: String? = null,
        prefix: String? = null,
        threads: Int = 0,
        batch: Int = 0,
        logits: Int = 0,
        hidden: Int = 0,
        noLogits: Boolean = false,
        slide: Boolean = false,
        checkpoints: Int = 0,
        lookup: Int = 0
    ): Session = Session(this, enter {
        Native.sessionOpen(
            it, count("capacity", capacity), count("batch", batch), count("logits", logits),
            count("hidden", hidden), noLogits, threads, slide, kv?.toByteArray(),
            prefix?.toByteArray(), count("checkpoints", checkpoints), count("lookup", lookup)
        )
    })

    /** Opens an embedder; see [Embedder] for the options. Close it before the model. */
    @JvmOverloads
    fun embedder(
        pooling: Pooling = Pooling.OF_FILE,
        raw: Boolean = false,
        dims: Int = 0,
        maxText: Int = 0,
        threads: Int = 0
    ): Embedder = Embedder(this, enter {
        Native.embedderOpen(
            it, pooling.number, raw, count("dims", dims), count("maxText", maxText), threads
        )
    })
}

/** Turns tokens into text as they come: bytes wait until their character is complete. */
internal class TextState(private val model: Model, goesOn: Boolean) {
    private val state = ByteArray(Native.TEXT_BYTES)

    init {
        state[0] = if (goesOn) 1 else 0
    }

    fun push(token: Int): String {
        if (token < 0) throw TuffetException(Status.ARGUMENT, "token $token")
        return String(model.call { Native.push(it, state, token) })
    }

    fun end(): String = String(model.call { Native.push(it, state, -1) })
}
