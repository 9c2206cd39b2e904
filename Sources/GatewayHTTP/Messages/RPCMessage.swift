/// What a message of JSON-RPC 2.0 calls, as MCP sends it. Its arguments are checked to be JSON and not kept.
package struct RPCMessage: Hashable, Sendable {
    /// As JSON, in the text that was sent, so that an answer repeats every digit; nil for a notification.
    package var id: String?
    /// nil for a response.
    package var method: [UInt8]?
    /// `params.name`, if it is a string: the name of a tool or prompt.
    package var name: [UInt8]?
    /// `params.uri`, if it is a string: the URI of a resource.
    package var uri: [UInt8]?

    package init(id: String? = nil, method: [UInt8]? = nil, name: [UInt8]? = nil, uri: [UInt8]? = nil) {
        self.id = id
        self.method = method
        self.name = name
        self.uri = uri
    }
}

/// The messages in the body of a request.
///
/// A server must not find another call in the same bytes, whichever JSON reader it has. So a message has only the members of JSON-RPC,
/// none of them twice: Go's reader, for example, takes `Method` for `method`, and others take the first or the last of two. Escapes are
/// decoded, and text that is not UTF-8 is refused.
package struct RPCBody: Hashable, Sendable {
    package static let maximumDepth = 128
    package static let maximumMessages = 100
    package static let maximumParameters = 64
    package static let maximumIDBytes = 256

    package let messages: [RPCMessage]
    /// The messages came in an array (MCP of 2025-03-26).
    package let isBatch: Bool

    package init(_ bytes: borrowing Span<UInt8>) throws(RPCFault) {
        var reader = RPCReader()
        reader.skipBlanks(bytes)
        isBatch = reader.next(bytes) == UInt8(ascii: "[")
        messages = isBatch ? try reader.batch(bytes) : [try reader.message(bytes)]
        reader.skipBlanks(bytes)
        guard reader.position == bytes.count else { throw .notJSON }
    }
}

/// Why a body is not read as JSON-RPC.
package enum RPCFault: String, Error, CaseIterable, Sendable {
    case notJSON = "is not one JSON text in UTF-8"
    case tooDeep = "is nested too deeply"
    case repeatedMember = "has a member twice, or two whose names differ only in case"
    case notMessage = "is not a JSON-RPC message, whose members are jsonrpc, id, method, params, result and error"
    case emptyBatch = "is an empty batch"
    case tooManyMessages = "is a batch of too many messages"
    case tooManyParameters = "has too many parameters"
    case idTooLong = "has an id that is too long"

    /// The error code of JSON-RPC.
    package var code: Int { self == .notJSON || self == .tooDeep ? RPCRefusal.parseError : RPCRefusal.invalidRequest }
}

/// An answer of the gateway's own in JSON-RPC, in place of `application/problem+json`: an agent shows it to its model.
package struct RPCRefusal: Hashable, Sendable {
    package static let parseError = -32700
    package static let invalidRequest = -32600
    package static let methodNotFound = -32601
    /// Also for a tool that does not exist (MCP of 2026-07-28, server/tools, "Error Handling").
    package static let invalidParameters = -32602
    /// The fields say something else than the body (MCP of 2026-07-28, basic/transports/streamable-http, "Server Validation").
    package static let headerMismatch = -32020

    package struct Failure: Hashable, Sendable {
        /// As JSON; nil if it is not known.
        package var id: String?
        package var code: Int
        package var message: String

        package init(id: String?, code: Int, message: String) {
            self.id = id
            self.code = code
            self.message = message
        }

        fileprivate var json: String {
            "{\"jsonrpc\":\"2.0\",\"id\":\(id ?? "null"),\"error\":{\"code\":\(code),\"message\":\(JSONString.quoted(message))}}"
        }
    }

    package let status: Int
    package let body: String

    package init(_ failure: Failure, status: Int) {
        self.status = status
        body = failure.json + "\n"
    }

    /// Answers a batch.
    package init(_ failures: [Failure], status: Int) {
        self.status = status
        body = "[" + failures.map(\.json).joined(separator: ",") + "]\n"
    }
}

/// Reads the bytes once, without recursion deeper than ``RPCBody/maximumDepth``. Only what is compared takes memory.
private struct RPCReader {
    /// The members of a message (JSON-RPC 2.0 sections 4 and 5).
    private enum Member: String, CaseIterable {
        case jsonrpc, id, method, params, result, error

        var bit: UInt8 {
            switch self {
            case .jsonrpc: 1
            case .id: 2
            case .method: 4
            case .params: 8
            case .result: 16
            case .error: 32
            }
        }
    }

    private(set) var position = 0
    private var depth = 0

    func next(_ bytes: borrowing Span<UInt8>) -> UInt8? { position < bytes.count ? bytes[position] : nil }

    mutating func skipBlanks(_ bytes: borrowing Span<UInt8>) {
        while let byte = next(bytes), byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { position += 1 }
    }

    // MARK: Messages

    mutating func batch(_ bytes: borrowing Span<UInt8>) throws(RPCFault) -> [RPCMessage] {
        guard try open(bytes, until: UInt8(ascii: "]")) else { throw .emptyBatch }
        var messages: [RPCMessage] = []
        repeat {
            guard messages.count < RPCBody.maximumMessages else { throw .tooManyMessages }
            messages.append(try message(bytes))
        } while try goesOn(bytes, until: UInt8(ascii: "]"))
        return messages
    }

    mutating func message(_ bytes: borrowing Span<UInt8>) throws(RPCFault) -> RPCMessage {
        skipBlanks(bytes)
        guard next(bytes) == UInt8(ascii: "{") else {
            try skipValue(bytes)
            throw .notMessage
        }
        guard try open(bytes, until: UInt8(ascii: "}")) else { throw .notMessage }
        var message = RPCMessage()
        var seen: UInt8 = 0
        repeat {
            let key = try key(bytes)
            guard let member = Member.allCases.first(where: { key.elementsEqual($0.rawValue.utf8) }) else {
                throw .notMessage
            }
            guard seen & member.bit == 0 else { throw .repeatedMember }
            seen |= member.bit
            switch member {
            case .id: message.id = try id(bytes)
            case .method: message.method = try text(bytes)
            case .params: try readParameters(bytes, into: &message)
            case .jsonrpc, .result, .error: try skipValue(bytes)
            }
        } while try goesOn(bytes, until: UInt8(ascii: "}"))
        let answers = (seen & Member.result.bit == 0 ? 0 : 1) + (seen & Member.error.bit == 0 ? 0 : 1)
        guard seen & Member.method.bit == 0 ? answers == 1 : answers == 0 else { throw .notMessage }
        return message
    }

    /// - Returns: nil for null.
    private mutating func id(_ bytes: borrowing Span<UInt8>) throws(RPCFault) -> String? {
        skipBlanks(bytes)
        let start = position
        switch next(bytes) ?? 0 {
        case UInt8(ascii: "n"): try skipValue(bytes)
        case UInt8(ascii: "\""): try skipString(bytes)
        case UInt8(ascii: "-"), 0x30...0x39: try skipNumber(bytes)
        default: throw .notMessage
        }
        guard position - start <= RPCBody.maximumIDBytes else { throw .idTooLong }
        return bytes[start] == UInt8(ascii: "n") ? nil : bytes.string(start..<position)
    }

    private mutating func text(_ bytes: borrowing Span<UInt8>) throws(RPCFault) -> [UInt8] {
        skipBlanks(bytes)
        guard next(bytes) == UInt8(ascii: "\"") else { throw .notMessage }
        return try string(bytes)
    }

    private mutating func readParameters(
        _ bytes: borrowing Span<UInt8>,
        into message: inout RPCMessage
    ) throws(RPCFault) {
        skipBlanks(bytes)
        guard next(bytes) == UInt8(ascii: "{") else {
            guard next(bytes) == UInt8(ascii: "n") else { throw .notMessage }
            return try skipValue(bytes)
        }
        guard try open(bytes, until: UInt8(ascii: "}")) else { return }
        var names: [[UInt8]] = []
        repeat {
            guard names.count < RPCBody.maximumParameters else { throw .tooManyParameters }
            let key = try key(bytes)
            let folded = key.map(\.asciiLowercased)
            guard !names.contains(folded) else { throw .repeatedMember }
            names.append(folded)
            skipBlanks(bytes)
            let isText = next(bytes) == UInt8(ascii: "\"")
            if key.elementsEqual("name".utf8), isText {
                message.name = try string(bytes)
            } else if key.elementsEqual("uri".utf8), isText {
                message.uri = try string(bytes)
            } else if folded != key, folded.elementsEqual("name".utf8) || folded.elementsEqual("uri".utf8) {
                throw .repeatedMember
            } else {
                try skipValue(bytes)
            }
        } while try goesOn(bytes, until: UInt8(ascii: "}"))
    }

    // MARK: JSON (RFC 8259)

    /// - Returns: false for an empty array or object, which is then closed.
    private mutating func open(_ bytes: borrowing Span<UInt8>, until end: UInt8) throws(RPCFault) -> Bool {
        position += 1
        depth += 1
        guard depth <= RPCBody.maximumDepth else { throw .tooDeep }
        skipBlanks(bytes)
        guard next(bytes) == end else { return true }
        position += 1
        depth -= 1
        return false
    }

    private mutating func goesOn(_ bytes: borrowing Span<UInt8>, until end: UInt8) throws(RPCFault) -> Bool {
        skipBlanks(bytes)
        switch next(bytes) ?? 0 {
        case UInt8(ascii: ","):
            position += 1
            return true
        case end:
            position += 1
            depth -= 1
            return false
        default: throw .notJSON
        }
    }

    /// The name of a member, with the colon behind it.
    private mutating func key(_ bytes: borrowing Span<UInt8>) throws(RPCFault) -> [UInt8] {
        skipBlanks(bytes)
        let key = try string(bytes)
        try skipColon(bytes)
        return key
    }

    private mutating func skipColon(_ bytes: borrowing Span<UInt8>) throws(RPCFault) {
        skipBlanks(bytes)
        guard next(bytes) == UInt8(ascii: ":") else { throw .notJSON }
        position += 1
    }

    private mutating func skipValue(_ bytes: borrowing Span<UInt8>) throws(RPCFault) {
        skipBlanks(bytes)
        switch next(bytes) ?? 0 {
        case UInt8(ascii: "{"):
            guard try open(bytes, until: UInt8(ascii: "}")) else { return }
            repeat {
                skipBlanks(bytes)
                try skipString(bytes)
                try skipColon(bytes)
                try skipValue(bytes)
            } while try goesOn(bytes, until: UInt8(ascii: "}"))
        case UInt8(ascii: "["):
            guard try open(bytes, until: UInt8(ascii: "]")) else { return }
            repeat { try skipValue(bytes) } while try goesOn(bytes, until: UInt8(ascii: "]"))
        case UInt8(ascii: "\""): try skipString(bytes)
        case UInt8(ascii: "t"): try skip("true", bytes)
        case UInt8(ascii: "f"): try skip("false", bytes)
        case UInt8(ascii: "n"): try skip("null", bytes)
        case UInt8(ascii: "-"), 0x30...0x39: try skipNumber(bytes)
        default: throw .notJSON
        }
    }

    private mutating func skip(_ word: String, _ bytes: borrowing Span<UInt8>) throws(RPCFault) {
        for byte in word.utf8 {
            guard next(bytes) == byte else { throw .notJSON }
            position += 1
        }
    }

    private mutating func skipNumber(_ bytes: borrowing Span<UInt8>) throws(RPCFault) {
        guard JSONValue.Number.skip(bytes, at: &position) else { throw .notJSON }
    }

    private mutating func skipString(_ bytes: borrowing Span<UInt8>) throws(RPCFault) {
        _ = try string(bytes, isKept: false)
    }

    private mutating func string(_ bytes: borrowing Span<UInt8>, isKept: Bool = true) throws(RPCFault) -> [UInt8] {
        guard next(bytes) == UInt8(ascii: "\""), let text = JSONString.read(bytes, at: &position, isKept: isKept) else {
            throw .notJSON
        }
        return text
    }
}
