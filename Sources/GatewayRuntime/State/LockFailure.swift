/// Why a lock does not hold everywhere, or not for good.
struct LockFailure: Error, Hashable {
    /// Why the file does not have it.
    var file: StateError?
    /// Why other gateways do not have it.
    var others: StateError?

    /// What an operator reads.
    func detail(of name: String) -> String {
        var text = [file, others].compactMap { $0 }.map { "\($0.description). " }.joined()
        text +=
            file == nil
            ? "\(name) is locked on this gateway, also after a restart."
            : "\(name) is locked, but only until the gateway stops. It tries to write the file again until then."
        if others != nil { text += " The other gateways do not know it yet. They follow when the store works again." }
        return text
    }
}
