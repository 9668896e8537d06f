// Continues a text: swift run generate MODEL TEXT
import Tuffet

let arguments = CommandLine.arguments
let session = try Model(arguments[1]).session()
let sampler = Sampler(temperature: 0.8, minP: 0.05, seed: 1)
let text = try session.generate(arguments[2], sampler: sampler)
while let piece = try text.next() {
    print(piece, terminator: "")
}
print()
