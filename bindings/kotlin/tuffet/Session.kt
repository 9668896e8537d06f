package tuffet

import java.io.Closeable
import java.util.concurrent.atomic.AtomicBoolean

/** A token and the logarithm of the probability that it comes next. */
class Choice(val token: Int, val logprob: Float)

/** Why a text ended: the model ended it, [LENGTH] tokens have come, the session is full. */
enum class Stopped { END, LENGTH, FULL }

/**
 * How the next token is chosen; without arguments the most likely. tuffet.h has the rules. The same
 * [seed] gives the same tokens on every machine; every draw changes it. [minTokens]: how many
 * tokens come before one that ends generation; each lowers it.
 */
class Sampler @JvmOverloads constructor(
    val temperature: Float = 0f,
    val topK: Int = 0,
    val topP: Float = 0f,
    val minP: Float = 0f,
    val repeatPenalty: Float = 0f,
    val repeatLast: Int = 0,
    seed: Long = java.util.Random().nextLong(),
    minTokens: Int = 0
) {
    internal val state = longArrayOf(seed, count("minTokens", minTokens).toLong())

    val seed: Long get() = state[0]
    val minTokens: Int get() = state[1].toInt()
}

/**
 * A pointer of the library that one call at a time uses. A call while another one runs, also by a
 * callback of that call, is a TuffetException of status BUSY.
 */
internal class Exclusive(
    private val what: String,
    private val model: Model,
    @Volatile private var pointer: Long,
    private val free: (Long) -> Unit
) {
    private val busy = AtomicBoolean()
    private val closing = Any() // held while the pointer is freed, and by calls of other threads

    fun <T> use(call: (Long) -> T): T {
        if (!busy.compareAndSet(false, true)) {
            throw TuffetException(Status.BUSY, "$what is busy: another call uses it")
        }
        try {
            return call(pointer)
        } finally {
            busy.set(false)
        }
    }

    /** For calls that may run beside another one. */
    fun beside(call: (Long) -> Unit) = synchronized(closing) { call(pointer) }

    fun close() = use {
        if (it != 0L) {
            synchronized(closing) {
                pointer = 0
                free(it)
            }
            model.leave()
        }
    }
}

/**
 * One sequence of tokens, its KV cache, and the logits after its last tokens. All of its memory is
 * taken when it is opened, by [Model.session]:
 *
 * capacity: how many tokens fit; 0: the model's context. kv: the cache, such as "f16" or
 * "kivi:bits=4". prefix: the name of a prefix of the file. threads: 0: one for each fast core.
 * batch: tokens of a pass, at most. logits, hidden: how many of the newest tokens of a call keep
 * their logits, their hidden vectors. noLogits: compute none. slide: when the session is full, drop
 * old tokens. checkpoints: copies of states to rewind to. lookup: draft tokens of a pass.
 *
 * One thread at a time may use a session, except [cancel]; it need not always be the same thread.
 * An exception that `progress` throws ends the call and comes out of it.
 */
class Session internal constructor(val model: Model, pointer: Long) : Closeable {
    private val handle = Exclusive("the session", model, pointer) { Native.sessionClose(it) }

    /** Closes the session; fails while another call uses it. Twice is fine. */
    override fun close() = handle.close()

    private fun feed(tokens: IntArray, how: Int, progress: ((Double) -> Unit)?) =
        handle.use { Native.feed(it, tokens, how, progressOf(progress)) }

    /** Appends tokens and computes them. */
    @JvmOverloads
    fun prefill(tokens: IntArray, progress: ((Double) -> Unit)? = null) = feed(tokens, 0, progress)

    /** Makes the session hold exactly these tokens: keeps the longest common beginning. */
    @JvmOverloads
    fun sync(tokens: IntArray, progress: ((Double) -> Unit)? = null) = feed(tokens, 1, progress)

    /** Appends one token and computes it. */
    fun decode(token: Int) {
        if (!handle.use { Native.decode(it, token) }) {
            throw TuffetException(Status.FULL, "the session is full")
        }
    }

    /** Drops every token from position [pos] on. */
    fun rewind(pos: Int) = handle.use { Native.rewind(it, count("pos", pos)) }

    /**
     * Ends the call that feeds the session, or else the next one, with a TuffetException of status
     * CANCELLED. Any thread may call it.
     */
    fun cancel() = handle.beside { Native.cancel(it) }

    /** How many tokens it holds. */
    val pos: Int get() = handle.use { Native.sessionNumber(it, 0) }.toInt()

    /** How many tokens fit. */
    val capacity: Int get() = handle.use { Native.sessionNumber(it, 1) }.toInt()

    /** How many draft tokens were accepted: see lookup. */
    val guessed: Long get() = handle.use { Native.sessionNumber(it, 2) }

    /** A copy of the tokens that it holds. */
    val tokens: IntArray get() = handle.use { Native.tokens(it) }

    /**
     * A copy of the logits after the newest token (0), the one before it (1), ... of the last call;
     * null if they were not kept.
     */
    @JvmOverloads
    fun logits(back: Int = 0): FloatArray? =
        handle.use { Native.vector(it, count("back", back), false) }

    /** A copy of the hidden vector of the newest token, ...; null if it was not kept. */
    @JvmOverloads
    fun hidden(back: Int = 0): FloatArray? =
        handle.use { Native.vector(it, count("back", back), true) }

    /** The [k] most likely next tokens. */
    fun likeliest(k: Int): List<Choice> {
        val logprobs = FloatArray(minOf(count("k", k), model.info.vocab))
        return handle.use { Native.likeliest(it, logprobs) }
            .mapIndexed { i, token -> Choice(token, logprobs[i]) }
    }

    /** Chooses the next token, which is not fed; -1: there are no logits, or no token may come. */
    fun sample(sampler: Sampler): Int = handle.use {
        with(sampler) {
            Native.sample(
                it, temperature, topK, topP, minP, repeatPenalty, repeatLast, state
            )
        }
    }

    /** Why the last text of [generate] or [chat] ended; null before its end. */
    @Volatile var stopped: Stopped? = null
        private set

    /**
     * Makes the session hold a prompt, and continues it with at most [maxTokens] tokens: a sequence
     * of its text, whole characters, as they come. The beginning of the prompt that the session
     * holds already is not computed again. The text ends where the model ends it, after maxTokens,
     * or where the session is full; [stopped] then says which. The sequence computes while it is
     * iterated, and begins anew each time. [progress]: of computing the prompt.
     */
    @JvmOverloads
    fun generate(
        prompt: String,
        maxTokens: Int = Int.MAX_VALUE,
        sampler: Sampler = Sampler(),
        progress: ((Double) -> Unit)? = null
    ): Sequence<String> =
        generate(model.tokenize(prompt), maxTokens, sampler, true, progress)

    /** The same for tokens. [goesOn]: the last one is text, so that a space may follow. */
    @JvmOverloads
    fun generate(
        prompt: IntArray,
        maxTokens: Int = Int.MAX_VALUE,
        sampler: Sampler = Sampler(),
        goesOn: Boolean = true,
        progress: ((Double) -> Unit)? = null
    ): Sequence<String> {
        count("maxTokens", maxTokens)
        return generated(prompt, maxTokens, sampler, goesOn, progress)
    }

    private fun generated(
        prompt: IntArray, maxTokens: Int, sampler: Sampler, goesOn: Boolean,
        progress: ((Double) -> Unit)?
    ): Sequence<String> = sequence {
        stopped = null
        feed(prompt, 2, progress)
        val text = TextState(model, goesOn)
        var made = 0
        while (true) {
            if (made == maxTokens) {
                stopped = Stopped.LENGTH
                break
            }
            val token = sample(sampler)
            if (token < 0) throw TuffetException(Status.ARGUMENT, "no token may come next")
            if (model.ends(token)) {
                stopped = Stopped.END
                break
            }
            val piece = text.push(token)
            if (piece.isNotEmpty()) yield(piece)
            made++
            if (!handle.use { Native.decode(it, token) }) {
                stopped = Stopped.FULL
                break
            }
        }
        val rest = text.end()
        if (rest.isNotEmpty()) yield(rest)
    }

    /** The answer to a conversation by the chat template of the file; see [Model.prompt]. */
    @JvmOverloads
    fun chat(
        messages: List<Message>,
        maxTokens: Int = Int.MAX_VALUE,
        sampler: Sampler = Sampler(),
        variables: String? = null,
        progress: ((Double) -> Unit)? = null
    ): Sequence<String> {
        val prompt = model.prompt(messages, variables)
        return generate(prompt.tokens, maxTokens, sampler, prompt.goesOn, progress)
    }

    /** Saves the session to a file, which gets its name when it is complete. */
    fun save(path: String) = handle.use { Native.save(it, path.toByteArray()) }

    /**
     * Replaces what it holds by a saved session of the same model, cache and prefix. After an error
     * it is as it was.
     */
    fun load(path: String) = handle.use { Native.load(it, path.toByteArray()) }

    /** Replaces what it holds by what another session of the model holds. */
    fun copyFrom(other: Session) =
        handle.use { to -> other.handle.use { from -> Native.copy(to, from) } }
}
