private import CPresets
import GatewayCore
import GatewayYAML

extension PresetLibrary {
    /// Those that come with the program. Read when they are first asked for.
    static let builtIn = PresetLibrary(PresetLoader.load(builtInText, named: "presets").presets)

    /// The YAML of ``builtIn``.
    static var builtInText: [UInt8] {
        var length = 0
        let start = unsafe authgateway_presets(&length)
        return unsafe Array(UnsafeBufferPointer(start: start, count: length))
    }
}
