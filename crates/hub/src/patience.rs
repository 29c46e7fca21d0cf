//! Asking again while there is a problem that may pass by itself: what is live outlasts a restart of the
//! database, and a node that lags. Whoever reads the past for a subscription asks in this way.

use std::time::Duration;

use rand::Rng as _;

use tidewire_access::problem::Problem;

/// How long a store that does not answer is given before it is asked again: doubled each time.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// How often the same was asked without an answer.
#[derive(Debug)]
pub(crate) struct RetryPolicy {
    wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { wait: RETRY_MIN }
    }
}

impl RetryPolicy {
    /// What was answered; or none, when it is time to ask again. Gives back a problem that will not pass.
    pub(crate) async fn bear<T>(
        &mut self,
        answer: Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        match answer {
            Err(problem) if problem.is_temporary() => {
                let spread = rand::rng().random_range(0.5..=1.0);
                tokio::time::sleep(self.wait.mul_f64(spread)).await;
                self.wait = (self.wait * 2).min(RETRY_MAX);
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_will_not_pass_is_not_waited_for() {
        let problem =
            || Problem::bad_request("column_not_found", "there is no such column", "name one");
        let (failed, lags) = (Err::<(), _>(problem()), Err::<(), _>(problem().retry_after_s(1)));
        let mut patience = RetryPolicy::default();
        assert!(patience.bear(failed).await.is_err());
        assert!(patience.bear(lags).await.expect("it may pass").is_none());
        assert_eq!(patience.wait, RETRY_MIN * 2);
    }
}
