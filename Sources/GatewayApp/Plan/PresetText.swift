import GatewayConfiguration
import Synchronization

extension PresetLibrary {
    /// Presets of one text, each of which is read when it is first asked for: most commands need few of them, or none.
    ///
    /// - Parameter text: A block mapping of names to presets, without a mistake. Called when a preset is first asked for.
    package init(reading text: @escaping @Sendable () -> [UInt8]) {
        let text = PresetText(text)
        self.init(names: { text.names }) { text.preset($0) }
    }
}

/// A text that is cut at the names of its presets.
private final class PresetText: Sendable {
    private struct State {
        let bytes: [UInt8]
        let places: [String: Range<Int>]
        var presets: [String: Preset] = [:]

        init(_ bytes: [UInt8]) {
            self.bytes = bytes
            places = PresetText.places(in: bytes)
        }

        mutating func preset(_ name: String) -> Preset? {
            if let known = presets[name] { return known }
            guard let place = places[name] else { return nil }
            let preset = PresetLoader.load(Array(bytes[place]), named: "presets").presets.first
            presets[name] = preset
            return preset
        }
    }

    private let text: @Sendable () -> [UInt8]
    private let state = Mutex<State?>(nil)

    init(_ text: @escaping @Sendable () -> [UInt8]) { self.text = text }

    var names: [String] { read { Array($0.places.keys) } }
    func preset(_ name: String) -> Preset? { read { $0.preset(name) } }

    private func read<Value>(_ body: (inout State) -> sending Value) -> Value {
        state.withLock { state in
            var read = state ?? State(text())
            defer { state = read }
            return body(&read)
        }
    }

    /// The lines of each preset: from its name, which stands in the first column, to the next one.
    private static func places(in bytes: [UInt8]) -> [String: Range<Int>] {
        var places: [String: Range<Int>] = [:]
        var (name, start, line) = (String?.none, 0, 0)
        while line < bytes.count {
            let end = bytes[line...].firstIndex(of: 0x0A) ?? bytes.count
            if let colon = bytes[line..<end].firstIndex(of: 0x3A), bytes[line] > 0x20, bytes[line] != 0x23 {
                if let name { places[name] = start..<line }
                (name, start) = (String(decoding: bytes[line..<colon], as: UTF8.self), line)
            }
            line = end + 1
        }
        if let name { places[name] = start..<bytes.count }
        return places
    }
}
