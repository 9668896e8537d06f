package tuffet

import java.io.Closeable

/** How the hidden vectors of a text's tokens become one vector. */
enum class Pooling(internal val number: Int) { OF_FILE(0), MEAN(1), LAST(2), CLS(4) }

/**
 * Makes a vector of each text. [Model.embedder] opens it:
 *
 * pooling: OF_FILE, or the mean if the file does not say. raw: vectors as computed, not brought to
 * length 1. dims: keep so many first numbers, of a model that was trained for it; 0: all. maxText:
 * tokens of a text, at most. threads: 0: one for each fast core.
 *
 * One thread at a time may use it, except [cancel].
 */
class Embedder internal constructor(val model: Model, pointer: Long) : Closeable {
    private val handle = Exclusive("the embedder", model, pointer) { Native.embedderClose(it) }

    /** Numbers of a vector. */
    val width = Native.embedderWidth(pointer)

    /** Closes the embedder; fails while another call uses it. Twice is fine. */
    override fun close() = handle.close()

    /** The vector of a text, with the special tokens that the model wants. */
    @JvmOverloads
    fun embed(text: String, progress: ((Double) -> Unit)? = null): FloatArray =
        embed(model.tokenize(text, eos = true), progress)

    /** The vector of a text's tokens, with all special tokens. */
    @JvmOverloads
    fun embed(tokens: IntArray, progress: ((Double) -> Unit)? = null): FloatArray =
        handle.use { Native.embed(it, tokens, progressOf(progress)) }

    /** Ends the call of another thread, or else the next one, with status CANCELLED. */
    fun cancel() = handle.beside { Native.embedderCancel(it) }
}
