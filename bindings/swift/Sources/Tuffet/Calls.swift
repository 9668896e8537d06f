import CTuffet
import Foundation

/// What a long call reports to. The library has a pointer to it.
final class Call {
    private let lock = NSLock() // held by the one call at a time
    private let what: String
    private var progress: ((Double) throws -> Void)?
    private var thrown: Error?

    init(_ what: String) {
        self.what = what
    }

    /// For progress_user; the owner of this object closes the library's object before it goes.
    var pointer: UnsafeMutableRawPointer {
        return Unmanaged.passUnretained(self).toOpaque()
    }

    /// The callback of the library: false ends its call.
    static let report: @convention(c) (UnsafeMutableRawPointer?, Double) -> Bool = { user, done in
        return Unmanaged<Call>.fromOpaque(user!).takeUnretainedValue().goesOn(done)
    }

    private func goesOn(_ done: Double) -> Bool {
        do {
            try progress?(done)
        } catch {
            thrown = error
        }
        return thrown == nil
    }

    /// Runs a call alone: another one at the same time, also in `progress`, is an error. What
    /// `progress` throws ends the call and is thrown after it.
    func alone<R>(
        reporting progress: ((Double) throws -> Void)?, _ call: () throws -> R
    ) throws -> R {
        guard lock.try() else {
            throw TuffetError(.busy, "\(what) is busy: another call uses it")
        }
        self.progress = progress
        thrown = nil
        defer {
            self.progress = nil
            lock.unlock()
        }
        let result = Result { try call() }
        if let error = thrown { throw error }
        return try result.get()
    }

    func alone<R>(_ call: () throws -> R) throws -> R {
        return try alone(reporting: nil, call)
    }
}
