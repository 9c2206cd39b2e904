package import GatewayHTTP

extension GrantAttempt {
    /// The token that renews the next time, from an answer of this attempt: it outlives an attempt that fails, because the
    /// one that was sent is spent.
    ///
    /// nil once another way was begun: what that brings belongs to a token that does not exist yet.
    package var nextRefreshToken: Secret? {
        get { restartedAfterStep == nil ? outputs["renewal"] : nil }
        set { outputs["renewal"] = newValue }
    }
}
