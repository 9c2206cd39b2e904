extension TelemetryDecoder {
    static let meanings: [String: KeyMeaning] = [
        "otlp": KeyMeaning(
            "The collector that spans and metrics are sent to: OTLP over HTTP with JSON. /v1/traces and /v1/metrics are put"
                + " behind it.",
            type: "an http or https URL",
            example: "http://127.0.0.1:4318"
        ),
        "headers": KeyMeaning(
            "Header fields that each export carries, such as a token of the collector. They need https, except on loopback.",
            example: "{Authorization: {env: OTLP_AUTHORIZATION}}"
        ),
        "service_name": KeyMeaning(
            "What the collector calls this gateway: service.name.",
            default: "authgateway",
            example: "gateway-berlin"
        ),
        "sampling": KeyMeaning(
            "How many of the traces that begin here are recorded. A trace that a client has begun is recorded as the client says.",
            default: "100%",
            example: "10%"
        ),
        "traces": KeyMeaning("Whether spans are exported.", default: "true", example: "false"),
        "metrics": KeyMeaning("Whether metrics are exported.", default: "true", example: "false"),
        "metrics_interval": KeyMeaning("How often metrics are exported.", default: "60s", example: "15s"),
    ]
}
