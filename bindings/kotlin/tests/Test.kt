// Test PROGRAM TOY DEMO FOLDER README EXAMPLE: the program of the same build, and the program that
// writes random models.
import java.io.File
import java.io.FileInputStream
import java.nio.file.Files
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.math.abs
import tuffet.Embedder
import tuffet.Message
import tuffet.Model
import tuffet.Pooling
import tuffet.Sampler
import tuffet.Session
import tuffet.Status
import tuffet.Stopped
import tuffet.TuffetException
import tuffet.Weights

const val PROMPT = "Once upon a time"
val LONG = "word ".repeat(100)
const val TEMPLATE = "template={% for m in messages %}{{ '<s>' + m.role + ': ' + m.content }}" +
    "{% endfor %}{% if word %}{{ word }}{% endif %}{{ ' assistant:' }}"
const val EMOJIS = "caf\u00e9 \uD83D\uDE00 and \uD834\uDD1E"

lateinit var program: String
lateinit var toyProgram: String
lateinit var demo: String
lateinit var folder: File

fun run(vararg command: String): String {
    val process = ProcessBuilder(*command).redirectError(ProcessBuilder.Redirect.INHERIT).start()
    val out = String(process.inputStream.readBytes())
    check(process.waitFor() == 0) { command.joinToString(" ") }
    return out
}

fun toy(name: String, vararg settings: String): String {
    val path = File(folder, "$name.gguf").path
    run(toyProgram, "write", path, *settings)
    return path
}

fun <T> same(got: T, want: T) = check(got == want) { "$got, not $want" }

fun sameTokens(got: IntArray, want: IntArray) = same(got.toList(), want.toList())

fun fails(status: Status, part: String, call: () -> Any?): TuffetException {
    try {
        call()
    } catch (e: TuffetException) {
        check(e.status == status && part in e.message!!) {
            "${e.status}: ${e.message}, not $status with $part"
        }
        return e
    }
    error("no exception, not $status with $part")
}

fun <T> withSession(path: String = demo, call: (Model, Session) -> T): T =
    Model(path).use { model -> model.session().use { call(model, it) } }

fun theModelSaysWhatItIs() = Model(demo).use { model ->
    same(Model.version, run(program, "--version").split(" ", "\n")[1])
    check(Model.cpu.isNotEmpty())
    with(model.info) {
        same(arch, "llama")
        check(vocab > 100 && context > 100 && embedding > 10 && layers > 1)
        check(params > weightBytes / 4 && weightBytes > 1000)
        same(prefix, 0)
        same(encoder, false)
    }
    same(model.chatTemplate, null)
}

fun tokensAreTextAgain() = Model(demo).use { model ->
    val ids = model.tokenize(PROMPT)
    same(ids[0], model.bos)
    same(model.detokenize(ids), PROMPT)
    sameTokens(model.tokenize(PROMPT, bos = false), ids.drop(1).toIntArray())
    same(model.ends(model.eos), true)
    same(model.ends(ids[1]), false)
    // UTF-8, not JNI's own: a token for each byte of characters that are not in the vocabulary
    same(model.tokenize("\uD83D\uDE00", bos = false, goesOn = true).size, 4)
    for (text in listOf("", EMOJIS, "a\u0000b", "\uD83D\uDE00".repeat(3000))) {
        same(model.detokenize(model.tokenize(text)), text)
    }
    val bytes = model.tokenize("\uD83D\uDE00", bos = false, goesOn = true)
    same(model.detokenize(bytes.take(2).toIntArray()), "\uFFFD")
    same(model.detokenize(model.tokenize(" a", goesOn = true), goesOn = true).takeLast(2), " a")
    same(model.tokenize("</s>", special = true).last(), model.eos)
    check(model.eos !in model.tokenize("</s>"))
    fails(Status.ARGUMENT, "token -1") { model.detokenize(intArrayOf(-1)) }
    Model(toy("ends", "adds_eos=1")).use {
        same(it.tokenize(PROMPT, eos = true).last(), it.eos)
        check(it.tokenize(PROMPT).last() != it.eos)
    }
    Model(demo, vocabOnly = true).use { sameTokens(it.tokenize(PROMPT), ids) }
}

fun textIsThatOfTheProgram() = withSession { _, session ->
    val samplers = listOf(
        "--temp 0 --repeat-penalty 1" to { Sampler() },
        "--temp 1.3 --seed 7 --top-k 0 --top-p 1 --min-p 0 --repeat-penalty 1" to
            { Sampler(temperature = 1.3f, seed = 7) },
        "--temp 1.5 --seed -3 --top-k 40 --top-p 0.7 --min-p 0.02 --repeat-penalty 1" to
            { Sampler(1.5f, topK = 40, topP = 0.7f, minP = 0.02f, seed = -3) },
        "--temp 0 --repeat-penalty 1.3 --repeat-last 20" to
            { Sampler(repeatPenalty = 1.3f, repeatLast = 20) }
    )
    for ((options, sampler) in samplers) {
        val number = options.replace("--seed -3", "--seed 18446744073709551613").split(" ")
        val want = run(program, "run", demo, "-p", PROMPT, "-n", "60", *number.toTypedArray())
        val got = session.generate(PROMPT, 60, sampler()).joinToString("")
        check(got.length > 60)
        same(got.trim(), want.trim())
        same(session.stopped, Stopped.LENGTH)
    }
}

fun charactersComeWhole() = withSession(toy("bytes", "endless=1")) { model, session ->
    val sampler = Sampler(temperature = 5f, seed = 3)
    val pieces = session.generate(model.tokenize(EMOJIS), 200, sampler).toList()
    same(pieces.joinToString(""), model.detokenize(
        session.tokens.drop(model.tokenize(EMOJIS).size).toIntArray(), goesOn = true))
    check(pieces.any { it.any { c -> c > '\u007f' } }) { pieces }
}

fun aTextEnds() {
    withSession { _, session ->
        same(session.generate(PROMPT, 0).toList(), listOf<String>())
        same(session.stopped, Stopped.LENGTH)
        val sampler = Sampler(seed = 5, minTokens = 3)
        val text = session.generate(PROMPT, sampler = sampler)
        check(text.take(2).count() == 2)
        same(session.stopped, null)
        same(sampler.minTokens, 1)
    }
    Model(demo).use { model ->
        model.session(capacity = 20).use {
            it.generate(PROMPT).count()
            same(it.stopped, Stopped.FULL)
            same(it.capacity, 20)
            fails(Status.FULL, "full") { it.decode(5) }
        }
        model.session().use {
            it.prefill(model.tokenize(PROMPT))
            it.likeliest(1)
        }
    }
    Model(toy("ending")).use { model ->
        model.session().use { session ->
            val ended = (1L..50L).any {
                session.generate("a", 200, Sampler(2f, seed = it)).count()
                session.stopped == Stopped.END
            }
            check(ended)
        }
    }
}

fun chatsByTheTemplate() {
    val path = toy("chat", TEMPLATE, "endless=1")
    withSession(path) { model, session ->
        check(model.chatTemplate!!.startsWith("{% for"))
        val messages = mutableListOf(Message("user", "<s>$EMOJIS\u0000"))
        val prompt = model.prompt(messages)
        same(prompt.goesOn, true)
        same(prompt.tokens.count { it == model.bos }, 1) // <s> of a user is text
        check("user: <s>$EMOJIS\u0000 assistant:" in model.detokenize(prompt.tokens))
        val more = model.prompt(messages, """{"word": " $EMOJIS"}""")
        check("$EMOJIS assistant:" in model.detokenize(more.tokens))

        val answer = session.chat(messages, 8, Sampler()).joinToString("")
        sameTokens(session.tokens.take(prompt.tokens.size).toIntArray(), prompt.tokens)
        same(answer, session.generate(prompt.tokens, 8, goesOn = true).joinToString(""))
        messages += Message("assistant", answer)
        messages += Message("user", "b")
        check(model.prompt(messages).tokens.size > prompt.tokens.size + 8)
        fails(Status.ARGUMENT, "JSON") { model.prompt(messages, "{") }
        fails(Status.ARGUMENT, "role") { model.prompt(listOf(Message("us\u0000er", "a"))) }
    }
    withSession { _, session ->
        fails(Status.UNSUPPORTED, "chat template") { session.chat(listOf(Message("user", "a"))) }
    }
    Model(toy("drops", "template={{ messages[0].content }}")).use {
        fails(Status.ARGUMENT, "message 1") {
            it.prompt(listOf(Message("user", "a"), Message("user", "gone")))
        }
    }
}

fun aPrefixIsNotFed() {
    val path = File(folder, "prefix.gguf").path
    run(program, "quantize", demo, "-o", path, "--calib-tokens", "512", "--intact", "bos",
        "--template", "chatml", "--intact-system", "short=Be short.")
    Model(path).use { model ->
        same(model.info.prefix, 1)
        val begin = "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\n"
        fun held(prefix: String?, text: String) = model.session(prefix = prefix).use {
            same(it.generate(text, 0).count(), 0)
            it.pos
        }
        // the prefix has the tokens that conversations begin with
        same(held("short", begin + "Once"), model.tokenize("Once", bos = false, goesOn = true).size)
        same(held("short", begin), 0)
        check(held(null, begin + "Once") > 10)
    }
}

fun logitsDoNotDependOnHowTokensCome() = withSession { model, session ->
    val ids = model.tokenize(PROMPT)
    session.prefill(ids)
    val logits = session.logits()!!
    same(logits.size, model.info.vocab)
    same(session.logits(1), null)
    same(session.hidden(), null)
    same(session.pos, ids.size)
    sameTokens(session.tokens, ids)
    val choices = session.likeliest(3)
    same(choices.size, 3)
    same(choices[0].token, logits.indices.maxBy { logits[it] })
    same(session.sample(Sampler()), choices[0].token)
    check(choices[0].logprob <= 0 && choices[0].logprob >= choices[1].logprob)
    same(session.likeliest(Int.MAX_VALUE).size, model.info.vocab)
    same(session.likeliest(0).size, 0)
    session.rewind(1)
    same(session.sample(Sampler()), -1)
    same(session.logits(), null)
    for (id in ids.drop(1)) session.decode(id)
    check(session.logits()!!.contentEquals(logits))
    session.sync(model.tokenize("Far away"))
    session.sync(ids)
    check(session.logits()!!.contentEquals(logits))

    val file = File(folder, "\uD83D\uDE00.session")
    session.save(file.path)
    model.session(hidden = 2, logits = 2).use { other ->
        other.load(file.path)
        check(other.logits()!!.contentEquals(logits))
        other.sync(ids.take(3).toIntArray())
        session.copyFrom(other)
        same(session.pos, 3)
        other.sync(ids)
        same(other.hidden()!!.size, model.info.embedding)
        check(!other.hidden(1)!!.contentEquals(other.hidden(0)!!))
        check(other.logits(1) != null)
    }
    same(session.guessed, 0L)
    val e = fails(Status.IO, "\uD83D\uDE00/a") { session.load("/no/\uD83D\uDE00/a") }
    same(e.os, 2)
    fails(Status.ARGUMENT, "zero") { session.save("a\u0000b") }
}

fun anOpenFileIsAModel() {
    val bytes = File(demo).readBytes()
    val file = File(folder, "asset").apply { writeBytes(ByteArray(64) + bytes + ByteArray(64)) }
    FileInputStream(file).use {
        val fd = File("/proc/self/fd").listFiles()!!.first { link ->
            Files.isSymbolicLink(link.toPath()) && link.canonicalPath == file.canonicalPath
        }.name.toInt()
        Model.open(fd, 64, bytes.size.toLong()).use { model ->
            same(model.info.layers, Model(demo).use { it.info.layers })
        }
        fails(Status.ARGUMENT, "") { Model.open(fd, 64, bytes.size + 65L) }
        fails(Status.ARGUMENT, "") { Model.open(fd, -32) }
    }
    fails(Status.IO, "") { Model.open(-1) }
}

fun failuresAreExceptions() {
    val e = fails(Status.IO, "/no/\uD83D\uDE00") { Model("/no/\uD83D\uDE00") }
    same(e.os, 2)
    fails(Status.ARGUMENT, "the path has a byte of zero") { Model("a\u0000b") }
    fails(Status.ARGUMENT, "the device") { Model(demo, device = "c\u0000pu") }
    fails(Status.ARGUMENT, "gpuLayers is -1") { Model(demo, gpuLayers = -1) }
    fails(Status.ARGUMENT, "") { Model(demo, threads = -1) }
    val text = File(folder, "text").apply { writeText("This is no model.\n".repeat(99)) }
    val status = try {
        Model(text.path)
        null
    } catch (e: TuffetException) {
        e.status
    }
    check(status == Status.FORMAT || status == Status.UNSUPPORTED) { "$status" }
    Model(demo, weights = Weights.F32).use { model ->
        fails(Status.ARGUMENT, "nonsense") { model.session(kv = "nonsense") }
        fails(Status.ARGUMENT, "no-such") { model.session(prefix = "no-such") }
        fails(Status.ARGUMENT, "capacity is -1") { model.session(capacity = -1) }
        fails(Status.ARGUMENT, "") { model.session(threads = 1025) }
        fails(Status.ARGUMENT, "kv has a byte of zero") { model.session(kv = "f16\u0000") }
        model.session().use {
            fails(Status.ARGUMENT, "") { it.prefill(intArrayOf(1, 1 shl 30)) }
            fails(Status.ARGUMENT, "") { it.prefill(intArrayOf()) }
            fails(Status.ARGUMENT, "") { it.rewind(1) }
            fails(Status.ARGUMENT, "pos is -1") { it.rewind(-1) }
            fails(Status.ARGUMENT, "back is -1") { it.logits(-1) }
            same(it.pos, 0)
            fails(Status.ARGUMENT, "maxTokens is -1") { it.generate(PROMPT, -1) }
        }
    } // and no failed call has left a session open
}

fun closedHandlesAreExceptions() {
    val model = Model(demo)
    val session = model.session()
    val text = session.generate(PROMPT).iterator()
    check(text.next().isNotEmpty())
    val embedder = model.embedder()
    fails(Status.BUSY, "2") { model.close() }
    same(model.tokenize("a").size, 2)
    session.close()
    session.close()
    val id = intArrayOf(1)
    val other = model.session()
    for (call in listOf<() -> Any?>(
        { session.prefill(id) }, { session.sync(id) }, { session.decode(1) }, { session.rewind(0) },
        { session.cancel() }, { session.pos }, { session.capacity }, { session.guessed },
        { session.tokens }, { session.logits() }, { session.hidden() }, { session.likeliest(1) },
        { session.sample(Sampler()) }, { session.generate("a").first() }, { text.next() },
        { session.save("a") }, { session.load("a") }, { session.copyFrom(other) },
        { other.copyFrom(session) }
    )) fails(Status.CLOSED, "the session is closed", call)
    other.close()
    embedder.close()
    embedder.close()
    fails(Status.CLOSED, "the embedder is closed") { embedder.embed("a") }
    fails(Status.CLOSED, "the embedder is closed") { embedder.cancel() }
    model.close()
    model.close()
    same(model.info.arch, "llama")
    for (call in listOf<() -> Any?>(
        { model.tokenize("a") }, { model.detokenize(id) }, { model.bos }, { model.eos },
        { model.ends(1) }, { model.chatTemplate }, { model.prompt(listOf()) },
        { model.session() }, { model.embedder() }, { session.generate("a") }
    )) fails(Status.CLOSED, "the model is closed", call)
}

class Stop : Exception("stop")

/** The exception that comes out of a call is the one of the callback. */
fun stops(want: Exception, call: () -> Any?) {
    try {
        call()
    } catch (e: Exception) {
        check(e === want) { e }
        return
    }
    error("no exception")
}

fun exceptionsInCallbacksComeOut() {
    Model(demo).use { model ->
        val stop = Stop()
        val long = model.tokenize(LONG)
        model.session(batch = 32).use { session ->
            val seen = mutableListOf<Double>()
            session.prefill(long) { seen += it }
            check(seen.size > 2 && seen.all { it in 0.0..1.0 } && seen == seen.sorted()) { seen }
            val calls = listOf<((Double) -> Unit) -> Any?>(
                { session.prefill(long, it) }, { session.sync(long, it) },
                { session.generate(long, progress = it).first() },
                { session.generate(LONG, progress = it).first() })
            for (call in calls) {
                session.rewind(0)
                stops(stop) { call { done -> if (done > 0.6) throw stop } }
                check(session.pos in 1 until long.size) { session.pos }
                stops(stop) { call { throw stop } }
            }
            session.sync(long) // it goes on
            same(session.pos, long.size)
            stops(stop) { session.generate(PROMPT).forEach { throw stop } }
            session.rewind(0)
            // a callback may not use the session, but may end its call
            fails(Status.BUSY, "the session is busy") { session.prefill(long) { session.pos } }
            fails(Status.BUSY, "the session is busy") { session.prefill(long) { session.close() } }
            fails(Status.CANCELLED, "") { session.prefill(long) { session.cancel() } }
            session.cancel()
            fails(Status.CANCELLED, "") { session.sync(long) }
            session.sync(long)
        }
        model.embedder().use { embedder ->
            stops(stop) { embedder.embed(long) { throw stop } }
            fails(Status.BUSY, "the embedder is busy") {
                embedder.embed(long) { embedder.embed("a") }
            }
            embedder.cancel()
            fails(Status.CANCELLED, "") { embedder.embed(long) }
            same(embedder.embed(long).size, embedder.width)
        }
    }
}

fun oneThreadUsesASession() = withSession { model, session ->
    val long = model.tokenize(LONG)
    val began = CountDownLatch(1)
    val tried = CountDownLatch(1)
    var failure: Throwable? = null
    val other = thread {
        try {
            session.prefill(long) {
                began.countDown()
                check(tried.await(60, TimeUnit.SECONDS))
            }
        } catch (e: Throwable) {
            failure = e
        }
    }
    check(began.await(60, TimeUnit.SECONDS))
    fails(Status.BUSY, "the session is busy") { session.decode(1) }
    fails(Status.BUSY, "the session is busy") { session.close() }
    fails(Status.BUSY, "1") { model.close() }
    session.cancel() // ends the call of the other thread
    tried.countDown()
    other.join()
    same((failure as? TuffetException)?.status, Status.CANCELLED)
    session.sync(long) // on this thread now
}

fun threadsShareAModel() = Model(demo).use { model ->
    val texts = arrayOfNulls<String>(4)
    texts.indices.map { i ->
        thread {
            model.session(threads = 1).use {
                texts[i] = it.generate(PROMPT, 30).joinToString("")
            }
        }
    }.forEach { it.join() }
    same(texts.toSet().size, 1)
    check(texts[0] != null)
}

fun embeds() {
    Model(toy("last", "pooling=3")).use { model -> // the number of LAST in files
        fun vector(pooling: Pooling) = model.embedder(pooling).use { it.embed("once upon") }
        check(vector(Pooling.OF_FILE).contentEquals(vector(Pooling.LAST)))
        check(!vector(Pooling.LAST).contentEquals(vector(Pooling.MEAN)))
        check(!vector(Pooling.CLS).contentEquals(vector(Pooling.MEAN)))
    }
    Model(demo).use { model ->
        vectors(model, model.embedder())
        fails(Status.ARGUMENT, "dims is -1") { model.embedder(dims = -1) }
        model.embedder(dims = 4, raw = true).use { same(it.embed("a").size, 4) }
        model.embedder(maxText = 3).use {
            fails(Status.FULL, "") { it.embed("one two three four five") }
        }
    }
}

fun vectors(model: Model, embedder: Embedder) = embedder.use {
    val a = it.embed("once upon a time")
    same(a.size, it.width)
    same(a.size, model.info.embedding)
    check(abs(a.map { x -> x * x }.sum() - 1) < 1e-4)
    check(a.contentEquals(it.embed(model.tokenize("once upon a time", eos = true))))
    check(!a.contentEquals(it.embed("far away")))
}

fun theExampleTellsAStory(readme: String, example: String) {
    val own = System.out
    val out = java.io.ByteArrayOutputStream()
    System.setOut(java.io.PrintStream(out, true, "UTF-8"))
    try {
        main(arrayOf(demo, PROMPT))
    } finally {
        System.setOut(own)
    }
    val sampler = Sampler(temperature = 0.8f, minP = 0.05f, seed = 1)
    val text = withSession { _, session -> session.generate(PROMPT, sampler = sampler).toList() }
    same(out.toString("UTF-8"), text.joinToString("") + "\n")
    check(File(example).readText().substringAfter("\n") in File(readme).readText())
}

object Test {
    @JvmStatic
    fun main(args: Array<String>) {
        program = args[0]
        toyProgram = args[1]
        demo = args[2]
        folder = File(args[3])
        val tests = listOf<Pair<String, () -> Any?>>(
            "theModelSaysWhatItIs" to ::theModelSaysWhatItIs,
            "tokensAreTextAgain" to ::tokensAreTextAgain,
            "textIsThatOfTheProgram" to ::textIsThatOfTheProgram,
            "charactersComeWhole" to ::charactersComeWhole,
            "aTextEnds" to ::aTextEnds,
            "chatsByTheTemplate" to ::chatsByTheTemplate,
            "aPrefixIsNotFed" to ::aPrefixIsNotFed,
            "logitsDoNotDependOnHowTokensCome" to ::logitsDoNotDependOnHowTokensCome,
            "anOpenFileIsAModel" to ::anOpenFileIsAModel,
            "failuresAreExceptions" to ::failuresAreExceptions,
            "closedHandlesAreExceptions" to ::closedHandlesAreExceptions,
            "exceptionsInCallbacksComeOut" to ::exceptionsInCallbacksComeOut,
            "oneThreadUsesASession" to ::oneThreadUsesASession,
            "threadsShareAModel" to ::threadsShareAModel,
            "embeds" to ::embeds,
            "theExampleTellsAStory" to { theExampleTellsAStory(args[4], args[5]) }
        )
        var failed = 0
        for ((name, test) in tests) {
            try {
                test()
                println("ok      $name")
            } catch (e: Throwable) {
                failed++
                println("failed  $name")
                e.printStackTrace(System.out)
            }
        }
        println("${tests.size - failed} passed, $failed failed")
        if (failed > 0) System.exit(1)
    }
}
