/// What each metric says, for the HELP lines of `/metrics`. A test fails when a metric in the sources has no entry.
enum MetricHelp {
    /// A sentence by the name of the metric; it names the unit.
    static let texts: [String: String] = [
        "gateway_audit_events_dropped_total":
            "Audit events that were lost because the queue before the audit log was full.",
        "gateway_audit_requests_lost_total":
            "Requests without a row in the audit log, because more came than it could write (audit.usage: request).",
        "gateway_audit_unshipped_events":
            "Events of the audit log that the database of tokens.store: postgres does not have yet.",
        "gateway_clients_denied_total": "Requests that were refused before a credential was used, by reason.",
        "gateway_credential_accepted_at_seconds":
            "Unix time in seconds at which an upstream last accepted a static credential.",
        "gateway_credential_rejected_at_seconds":
            "Unix time in seconds at which an upstream last rejected a static credential.",
        "gateway_credential_rejections_total":
            "Answers of 401 and 403 by upstreams to requests with a credential, by route.",
        "gateway_engine_answers_total": "Answers to engines of listeners.authz, by engine and outcome.",
        "gateway_expires_in_seconds": "Seconds until something ends that only a person can replace: kind and name.",
        "gateway_expires_soon": "1 when it is time to replace it, else 0.",
        "gateway_log_lines_lost_total": "Log lines that were dropped because standard error was not read in time.",
        "gateway_login_expires_in_seconds": "Seconds until a person has to log in again for a credential.",
        "gateway_metrics_series_refused_total": "Metrics that are not shown because the limit of 10000 is reached.",
        "gateway_problems_total": "Requests that the gateway answered itself or cut, by route and problem.",
        "gateway_received_bytes_total": "Bytes of request content that clients sent, by route.",
        "gateway_replays_total": "Requests that were sent again with a newer token after a 401, by route.",
        "gateway_request_duration_seconds":
            "Seconds from the whole head of a request to the end of its response, by route.",
        "gateway_requests_failed_total": "Requests that failed, by route and reason.",
        "gateway_requests_total":
            "Requests that have ended, by route and status. The route is empty where none matched.",
        "gateway_sent_bytes_total": "Bytes of response content that clients were sent, by route.",
        "gateway_telemetry_exports_failed_total": "Exports to the OpenTelemetry collector that it did not take.",
        "gateway_telemetry_spans_dropped_total":
            "Requests and token calls without an exported span: too many waited, or the collector refused them.",
        "gateway_token_audit_failures_total": "Token events that could not be written to the audit log.",
        "gateway_token_call_seconds": "Seconds that calls to the authority of a credential took.",
        "gateway_token_calls_total": "Calls to the authority of a credential, by outcome.",
        "gateway_token_clock_skew_seconds": "Clock of the authority minus the gateway's, in seconds.",
        "gateway_token_expires_at_seconds": "Unix time in seconds at which the token of a credential ends.",
        "gateway_token_expires_in_seconds": "Seconds until the token of a credential ends.",
        "gateway_token_failing": "1 while calls to the authority of a credential fail, else 0.",
        "gateway_token_generation": "How many tokens the credential has had; the present one has this number.",
        "gateway_token_needs_person": "1 when only a person can make the credential usable again, else 0.",
        "gateway_token_notes_dropped_total": "Audit events about a token that were lost because too many waited.",
        "gateway_token_rejections_total": "Tokens that were given up because an upstream rejected them with a 401.",
        "gateway_token_storms_total": "Times that calls to an authority were slowed down because there were too many.",
        "gateway_token_store_failures_total": "Reads and writes of a token that the token store failed.",
        "gateway_token_subjects": "Subjects (users) of a credential that have a token at this moment.",
        "gateway_token_usable": "1 when the token of a credential can be used, else 0.",
        "gateway_tokens_vended_total": "Tokens of a credential that were handed out to clients (vend).",
    ]
}
