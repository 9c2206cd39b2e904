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
            BoxOAuthStrategy.self,
            DukeSessionStrategy.self,
            HeaderStrategy.self,
            NoneStrategy.self,
            AuthorizationCodeStrategy.self,
            ClientCredentialsStrategy.self,
            JWTBearerStrategy.self,
            SessionRefreshStrategy.self,
        ],
        planned: [
            "delegated", "exec", "oauth2_password", "oauth2_token_exchange", "recipe",
        ]
    )
}
