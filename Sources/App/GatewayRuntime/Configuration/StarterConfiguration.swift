private import CPresets

/// The configuration of a first run.
enum StarterConfiguration {
    /// `gateway.yaml` of the repository without its first line, which names a file there.
    static var text: [UInt8] {
        var length = 0
        let start = unsafe authgateway_starter(&length)
        let bytes = unsafe Array(UnsafeBufferPointer(start: start, count: length))
        return Array(bytes.drop { $0 != 0x0A }.dropFirst())
    }
}
