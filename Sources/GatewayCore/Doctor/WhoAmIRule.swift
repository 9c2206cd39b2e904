/// What is said of the answer to the `whoami` of a route.
package enum WhoAmIRule {
    /// - Parameter credential: The name of the route's credential.
    package static func finding(
        of answer: WhoAmIAnswer,
        to request: WhoAmI,
        route: String,
        credential: String
    ) -> DoctorFinding {
        let subject = "route \(route)"
        let text = answer.text(to: request)
        switch answer {
        case .known: return DoctorFinding(.credentials, .ok, subject, text)
        case .refused:
            let remedy = "Replace the secret of \(credential), or give its account access."
            return DoctorFinding(.credentials, .error, subject, text, remedy: remedy)
        case .unclear, .failed:
            let remedy = "Send the request through the gateway, and read the answer."
            return DoctorFinding(.credentials, .warning, subject, text, remedy: remedy)
        }
    }

    /// - Parameters:
    ///   - reason: Why it is not known whose the credentials are.
    ///   - file: The configuration.
    package static func unknown(_ reason: String, file: String) -> DoctorFinding {
        DoctorFinding(
            .credentials,
            .warning,
            "services",
            reason,
            remedy: "Ask them again, without the other checks.",
            command: GatewayCommand.line("check", "--acquire", file)
        )
    }
}
