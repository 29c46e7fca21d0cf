//! Everything a client is told that is not success.

use crate::http::Answer;

/// Why a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complaint {
    /// The connection broke, or could not be made: whether the server did it is not known.
    NoAnswer(String),
    /// The server said no.
    Problem {
        status: u16,
        code: String,
        temporary: bool,
        /// When to come back, if it said so.
        retry_after: Option<String>,
    },
}

impl Complaint {
    /// What a server that is not there gives.
    pub fn no_answer(error: &reqwest::Error) -> Complaint {
        Complaint::NoAnswer(format!("{error:?}"))
    }

    /// What an answer that is no success says. A body that is no problem document has no code.
    pub fn of(answer: &Answer) -> Complaint {
        let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        Complaint::Problem {
            status: answer.status,
            code: problem["code"].as_str().unwrap_or_default().to_owned(),
            temporary: problem["temporary"] == true,
            retry_after: answer.header("retry-after").map(ToOwned::to_owned),
        }
    }

    /// Whether the server promised that nothing was written. Without an answer, and where it says
    /// that it does not know, the append may be there.
    pub fn nothing_written(&self) -> bool {
        match self {
            Complaint::NoAnswer(_) => false,
            Complaint::Problem { code, .. } => code != "outcome_unknown",
        }
    }

    /// Whether the same request may succeed later.
    pub fn temporary(&self) -> bool {
        match self {
            Complaint::NoAnswer(_) => true,
            Complaint::Problem { temporary, .. } => *temporary,
        }
    }

    /// Whether this is what a client may be told while the database is away: 503, with a time to come
    /// back at, by a server that is there.
    pub fn asks_to_come_back(&self) -> bool {
        match self {
            Complaint::NoAnswer(_) => false,
            Complaint::Problem { status, temporary, retry_after, .. } => {
                *status == 503 && *temporary && retry_after.is_some()
            }
        }
    }
}

/// Fails at once where trying again would be no use, instead of waiting in vain.
pub fn none_is_hopeless(complaints: &[Complaint]) {
    if let Some(hopeless) = complaints.iter().find(|complaint| !complaint.temporary()) {
        panic!("a client was told that trying again is no use: {hopeless:?}");
    }
}
