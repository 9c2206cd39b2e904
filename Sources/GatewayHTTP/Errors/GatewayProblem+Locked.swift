extension GatewayProblem {
    /// - Parameter credential: What has to be unlocked.
    package static func locked(_ credential: String) -> GatewayProblem {
        GatewayProblem(
            .locked,
            "An operator has locked the credential \(credential).",
            command: GatewayCommand.line("token", "unlock", credential)
        )
    }
}
