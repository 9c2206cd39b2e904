private import CPresets
import GatewayConfiguration
import GatewayCore

extension PresetLibrary {
    /// Those that come with the program.
    static let builtIn = PresetLibrary {
        var length = 0
        let start = unsafe authgateway_presets(&length)
        return unsafe Array(UnsafeBufferPointer(start: start, count: length))
    }
}
