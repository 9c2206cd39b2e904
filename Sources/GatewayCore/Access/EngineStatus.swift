extension EnginePlan.Contract {
    /// The status with which an engine is refused.
    ///
    /// nginx takes 401 and 403 for a refusal, and anything else for an error of its own. The others pass statuses of 4xx on. Of 5xx, 503
    /// is what each takes for an outage.
    package func status(of kind: ProblemKind) -> Int {
        switch kind.status {
        case 401, 407: 401
        case 400..<500: self == .nginx ? 403 : kind.status
        default: 503
        }
    }
}
