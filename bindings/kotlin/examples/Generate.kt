// Continues a text: Generate MODEL TEXT
import tuffet.Model
import tuffet.Sampler

fun main(args: Array<String>) {
    Model(args[0]).use { model ->
        model.session().use { session ->
            val sampler = Sampler(temperature = 0.8f, minP = 0.05f, seed = 1)
            for (text in session.generate(args[1], sampler = sampler)) print(text)
            println()
        }
    }
}
