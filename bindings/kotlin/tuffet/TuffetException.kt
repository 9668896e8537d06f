package tuffet

/** Why a call failed. tuffet.h explains all but the last three. */
enum class Status(internal val code: Int) {
    ARGUMENT(1),
    NO_MEMORY(2),
    IO(3),
    FORMAT(4),
    UNSUPPORTED(5),
    FULL(6),
    DEVICE(7),
    NUMBERS(8),
    CANCELLED(9),
    /** The model, the session or the embedder is closed. */
    CLOSED(-1),
    /** Another call uses the session or the embedder, or the model has open sessions. */
    BUSY(-2),
    /** A status of a later library. */
    UNKNOWN(0)
}

/**
 * A failure: its message is one line for a person. [os] is the errno of the system call that
 * failed, or 0.
 */
class TuffetException(val status: Status, message: String, val os: Int = 0) :
    RuntimeException(message) {

    /** For the JNI library, which has the line as bytes of UTF-8. */
    internal constructor(code: Int, line: ByteArray, os: Int) :
        this(Status.values().find { it.code == code } ?: Status.UNKNOWN, String(line), os)
}
