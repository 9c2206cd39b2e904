package import GatewayCore

extension StrategyCatalog {
    /// Every strategy the gateway ships with, in alphabetical order of `kind`.
    package static let builtIn = StrategyCatalog(
        [
            BasicStrategy.self,
            BearerStrategy.self,
            BoxCCGStrategy.self,
            BoxDeveloperTokenStrategy.self,
            BoxJWTStrategy.self,
            DukeSessionStrategy.self,
            HeaderStrategy.self,
            NoneStrategy.self,
            ClientCredentialsStrategy.self,
            JWTBearerStrategy.self,
            SessionRefreshStrategy.self,
        ],
        planned: [
            "box_oauth", "delegated", "exec", "oauth2_authorization_code",
            "oauth2_password", "oauth2_token_exchange", "recipe",
        ]
    )
}
