/// The name of one request in its answer, in logs and in the audit log. The gateway gives it; no client can choose it.
///
/// Numbers, because most requests are never named anywhere but in their answer, which the digits are written into.
///
///     k3f9a01-2s
///     ├────┘│ └ its sequence number on that worker
///     └ run └ the worker
package struct RequestID: Hashable, Sendable, CustomStringConvertible {
    /// The run of the gateway: tells its ids from those of another run. 30 bits.
    package let run: UInt32
    private let workerNumber: UInt32
    package let number: UInt64

    package var worker: Int { Int(workerNumber) }

    package init(run: UInt32, worker: Int, number: UInt64) {
        self.run = run & Self.maximumRun
        workerNumber = UInt32(clamping: worker)
        self.number = number
    }

    package static let maximumRun: UInt32 = 1 << 30 - 1
    /// The maximum number of bytes of the text.
    package static let maximumLength = runDigits + 7 + 1 + 13
    private static let runDigits = 6

    package var description: String {
        // On the stack: most of these strings are short enough to need no memory of their own.
        unsafe withUnsafeTemporaryAllocation(byteCount: Self.maximumLength, alignment: 1) { buffer in
            let count = unsafe write(into: buffer)
            return unsafe String(decoding: UnsafeRawBufferPointer(rebasing: buffer[..<count]), as: UTF8.self)
        }
    }

    /// Writes the text.
    ///
    /// - Parameter buffer: With room for ``maximumLength`` bytes.
    /// - Returns: How many bytes it has; 0 where there is too little room.
    package func write(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard buffer.count >= Self.maximumLength else { return 0 }
        // Eight bytes, of which six stay: there is room for more.
        unsafe buffer.storeBytes(of: digitsOfRun.littleEndian, as: UInt64.self)
        let end = unsafe Self.write(UInt64(workerNumber), minimum: 1, into: buffer, at: Self.runDigits)
        unsafe buffer[end] = 0x2D
        return unsafe Self.write(number, minimum: 1, into: buffer, at: end &+ 1)
    }

    /// The six digits of the run, the first in the lowest byte: all at once.
    @inline(__always)
    private var digitsOfRun: UInt64 {
        let run = UInt64(run)
        let high = run &>> 25 | (run &>> 20 & 31) &<< 8 | (run &>> 15 & 31) &<< 16
        let digits = high | (run &>> 10 & 31) &<< 24 | (run &>> 5 & 31) &<< 32 | (run & 31) &<< 40
        // The highest bit of each byte that is ten or more: a letter.
        let letters = (digits &+ 0x7676_7676_7676_7676) &>> 7 & 0x0101_0101_0101_0101
        return digits &+ 0x3030_3030_3030_3030 &+ letters &* 0x27
    }

    /// Digits of five bits: no division.
    @inline(__always)
    private static func write(
        _ value: UInt64,
        minimum: Int,
        into buffer: UnsafeMutableRawBufferPointer,
        at start: Int
    ) -> Int {
        let end = start &+ max(minimum, (68 &- value.leadingZeroBitCount) / 5)
        var (index, rest) = (end, value)
        while index > start {
            index &-= 1
            let digit = UInt8(truncatingIfNeeded: rest) & 31
            unsafe buffer[index] = digit < 10 ? 0x30 &+ digit : 0x57 &+ digit
            rest &>>= 5
        }
        return end
    }

    /// - Returns: nil for what is no id of a gateway.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].utf8.count > Self.runDigits,
            let run = UInt32(parts[0].prefix(Self.runDigits), radix: 32),
            let worker = UInt32(parts[0].dropFirst(Self.runDigits), radix: 32),
            let number = UInt64(parts[1], radix: 32)
        else { return nil }
        self.init(run: run, worker: Int(worker), number: number)
        // Another spelling, for example with a sign or in capitals, is another text.
        guard description == text else { return nil }
    }
}

/// The id that a client has given its request.
package enum ClientRequestID {
    /// The first `X-Request-Id`, where it is harmless: letters, digits, `-`, `_` and `.`, at most 64 of them.
    package static func read(from head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> String? {
        guard head.present.contains(.requestID), let field = head.first(.xRequestID),
            (1...64).contains(field.value.count)
        else { return nil }
        for index in field.value {
            let byte = bytes[index]
            guard byte.isDigit || (byte | 0x20) &- 0x61 < 26 || [0x2D, 0x2E, 0x5F].contains(byte) else { return nil }
        }
        return bytes.string(field.value)
    }
}
