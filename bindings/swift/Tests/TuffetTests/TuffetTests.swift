// With the model that ships, or the one that TUFFET_TEST_MODEL names.
import Foundation
import Tuffet
import XCTest

private let prompt = "Once upon a time"
private let emojis = "caf\u{e9} \u{1F600} and \u{1D11E}"

private struct Stop: Error, Equatable {}

private func path() -> String {
    if let path = ProcessInfo.processInfo.environment["TUFFET_TEST_MODEL"] { return path }
    var root = URL(fileURLWithPath: #filePath)
    for _ in 0..<5 { root.deleteLastPathComponent() }
    return root.appendingPathComponent("models/demo/stories2M.gguf").path
}

private func whole(_ generation: Generation) throws -> String {
    var text = ""
    while let piece = try generation.next() { text += piece }
    return text
}

final class TuffetTests: XCTestCase {
    private func fails<R>(
        _ status: TuffetError.Status, _ part: String, _ call: @autoclosure () throws -> R,
        line: UInt = #line
    ) {
        XCTAssertThrowsError(try call(), line: line) { error in
            let error = error as? TuffetError
            XCTAssertEqual(error?.status, status, line: line)
            XCTAssert(part.isEmpty || error?.description.contains(part) == true, line: line)
        }
    }

    func testTokensAreTextAgain() throws {
        let model = try Model(path())
        let ids = try model.tokenize(prompt)
        XCTAssertEqual(ids.first, model.bos)
        XCTAssertEqual(model.detokenize(ids), prompt)
        XCTAssertEqual(try model.tokenize(prompt, bos: false), Array(ids.dropFirst()))
        XCTAssert(model.ends(model.eos))
        XCTAssertFalse(model.ends(ids[1]))
        for text in ["", emojis, "a\0b", String(repeating: "\u{1F600}", count: 3000)] {
            XCTAssertEqual(model.detokenize(try model.tokenize(text)), text)
        }
        XCTAssertEqual(try model.tokenize("</s>", special: true).last, model.eos)
        XCTAssertFalse(try model.tokenize("</s>").contains(model.eos))
        XCTAssertEqual(model.info.arch, "llama")
        XCTAssertFalse(Model.version.isEmpty)
    }

    func testTheSameSeedGivesTheSameText() throws {
        let session = try Model(path()).session()
        let sampler = Sampler(temperature: 1.3, seed: 7)
        let first = try session.generate(prompt, maxTokens: 40, sampler: sampler)
        let text = try whole(first)
        XCTAssertEqual(first.stopped, .length)
        XCTAssertGreaterThan(text.count, 40)
        let second = try session.generate(prompt, maxTokens: 40, sampler: sampler)
        XCTAssertEqual(try whole(second), text)
    }

    func testAFullSessionEndsTheText() throws {
        var options = SessionOptions()
        options.capacity = 20
        let session = try Model(path()).session(options)
        let text = try session.generate(prompt, sampler: Sampler())
        _ = try whole(text)
        XCTAssertEqual(text.stopped, .full)
        fails(.full, "", try session.decode(5))
    }

    func testLogitsDoNotDependOnHowTokensCome() throws {
        let model = try Model(path())
        let session = try model.session()
        let ids = try model.tokenize(prompt)
        try session.prefill(ids)
        let logits = try session.logits()
        XCTAssertEqual(logits?.count, model.info.vocab)
        XCTAssertNil(try session.logits(1))
        XCTAssertEqual(try session.tokens(), ids)
        try session.rewind(to: 1)
        for id in ids.dropFirst() { try session.decode(id) }
        XCTAssertEqual(try session.logits(), logits)
        var sampler = Sampler()
        XCTAssertEqual(try session.likeliest(1).first?.token, try session.sample(&sampler))

        let file = FileManager.default.temporaryDirectory
            .appendingPathComponent("\(UUID().uuidString) \u{1F600}").path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try session.save(file)
        let other = try model.session()
        try other.load(file)
        XCTAssertEqual(try other.logits(), logits)
    }

    func testFailuresAreErrors() throws {
        fails(.io, "/no/\u{1F600}", try Model("/no/\u{1F600}"))
        fails(.argument, "byte of zero", try Model("a\0b"))
        fails(.argument, "gpuLayers is -1", try Model(path(), gpuLayers: -1))
        let model = try Model(path())
        var options = SessionOptions()
        options.kv = "nonsense"
        fails(.argument, "nonsense", try model.session(options))
        let session = try model.session()
        fails(.argument, "", try session.prefill([1, 1 << 30]))
        fails(.argument, "position -1", try session.rewind(to: -1))
        let messages = [Message(role: "user", content: "a")]
        fails(.unsupported, "chat template", try session.chat(messages))
    }

    func testErrorsInCallbacksComeOut() throws {
        let model = try Model(path())
        var options = SessionOptions()
        options.batch = 32
        let session = try model.session(options)
        let long = try model.tokenize(String(repeating: "word ", count: 100))
        XCTAssertThrowsError(try session.prefill(long) { if $0 > 0.6 { throw Stop() } }) {
            XCTAssertEqual($0 as? Stop, Stop())
        }
        let held = try session.pos()
        XCTAssert(held > 0 && held < long.count)
        fails(.busy, "busy", try session.sync(long) { _ in _ = try session.pos() })
        session.cancel()
        fails(.cancelled, "", try session.sync(long))
        try session.sync(long)
        XCTAssertEqual(try session.pos(), long.count)
    }

    func testEmbeds() throws {
        let embedder = try Model(path()).embedder()
        let a = try embedder.embed("once upon a time")
        XCTAssertEqual(a.count, embedder.width)
        XCTAssertEqual(a.map { $0 * $0 }.reduce(0, +), 1, accuracy: 1e-4)
        XCTAssertEqual(try embedder.embed("once upon a time"), a)
        XCTAssertNotEqual(try embedder.embed("far away"), a)
    }
}
