import GatewayFiles

/// Says that a restore has begun to put files into their places. A directory that has it may lack some of them, and a gateway
/// would begin anew with what it has.
enum RestoreMarker {
    private static func path(in stateDirectory: String) -> String { "\(stateDirectory)/restore.unfinished" }

    static func set(in stateDirectory: String) throws(StateError) {
        try StateFile.write("", to: path(in: stateDirectory))
    }

    static func remove(in stateDirectory: String) { _ = PrivateFile.remove(path(in: stateDirectory)) }

    static func requireNone(in stateDirectory: String) throws(StateError) {
        guard FileIdentity(path(in: stateDirectory)) != nil else { return }
        throw StateError(
            "a restore of the state directory \(stateDirectory) did not finish; repeat it with: authgateway state restore "
                + "DIR --replace"
        )
    }
}
