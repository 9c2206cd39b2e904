/// When the gateway asks again by itself, although waiting alone may not help.
package enum RetrySchedule {
    /// After answers that may not come from the authority.
    ///
    /// - Parameters:
    ///   - answers: How many there have been in a row, this one included.
    ///   - canAcquireAnew: Another way to a token is tried with the last try, so there is little reason to wait long.
    package static func afterSuspectAnswers(_ answers: Int, canAcquireAnew: Bool) -> Duration {
        let pauses: [Duration] =
            canAcquireAnew ? [.seconds(5), .seconds(25)] : [.seconds(120), .seconds(360)]
        return answers <= pauses.count ? pauses[max(answers, 1) - 1] : hourly
    }

    /// How many suspect answers in a row leave the refresh token in doubt: the first, and two more tries.
    package static let suspectAnswersForDoubt = 3

    /// After failures of the configuration: 5 minutes, 15 minutes, then hourly.
    ///
    /// - Parameter failures: How many there have been in a row, this one included.
    package static func afterConfigurationFailures(_ failures: Int) -> Duration {
        switch failures {
        case ...1: .seconds(300)
        case 2: .seconds(900)
        default: hourly
        }
    }

    package static let hourly: Duration = .seconds(3600)
}
