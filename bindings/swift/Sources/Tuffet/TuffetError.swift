import CTuffet

/// A failure: why a call failed, and one line for a person.
public struct TuffetError: Error, CustomStringConvertible {
    /// The statuses of tuffet.h, which explains all but the last two.
    public enum Status: Equatable {
        case argument, noMemory, io, format, unsupported, full, device, numbers, cancelled
        /// Another call uses the session or the embedder.
        case busy
        /// A status of a later library.
        case unknown
    }

    public let status: Status
    /// The errno of the system call that failed, or 0.
    public let os: Int
    public let description: String

    init(_ status: Status, _ line: String) {
        self.status = status
        os = 0
        description = line
    }

    init(_ code: tft_status, _ error: UnsafePointer<tft_error>?) {
        switch code {
        case TFT_ERR_ARG: status = .argument
        case TFT_ERR_NOMEM: status = .noMemory
        case TFT_ERR_IO: status = .io
        case TFT_ERR_FORMAT: status = .format
        case TFT_ERR_UNSUPPORTED: status = .unsupported
        case TFT_ERR_FULL: status = .full
        case TFT_ERR_DEVICE: status = .device
        case TFT_ERR_NUMBERS: status = .numbers
        case TFT_ERR_CANCELLED: status = .cancelled
        default: status = .unknown
        }
        let line = error.map { String(cString: shim_line($0)) } ?? ""
        description = line.isEmpty ? String(cString: tft_status_text(code)) : line
        os = line.isEmpty ? 0 : error.map { Int($0.pointee.os) } ?? 0
    }
}

/// Throws if a call has failed. `call` may write its line to the error.
func check(_ call: (UnsafeMutablePointer<tft_error>) -> tft_status) throws {
    var error = tft_error()
    let code = withUnsafeMutablePointer(to: &error) { call($0) }
    if code != TFT_OK {
        throw withUnsafePointer(to: &error) { TuffetError(code, $0) }
    }
}

/// Calls with a text as a C string, or NULL for nil. A text with a byte of zero is refused.
func withText<R>(
    _ what: String, _ text: String?, _ call: (UnsafePointer<CChar>?) throws -> R
) throws -> R {
    guard let text = text else { return try call(nil) }
    if text.utf8.contains(0) {
        throw TuffetError(.argument, "\(what) has a byte of zero")
    }
    return try text.withCString { try call($0) }
}

/// A number that C reads as unsigned.
func count(_ what: String, _ n: Int) throws -> UInt32 {
    guard let result = UInt32(exactly: n) else {
        throw TuffetError(.argument, "\(what) is \(n), outside 0 to \(UInt32.max)")
    }
    return result
}

/// A number of threads. The library refuses -1, and with it numbers that an int cannot hold.
func threadCount(_ n: Int) -> Int32 {
    return Int32(exactly: n) ?? -1
}
