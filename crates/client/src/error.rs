//! The errors of a client, with the server's problem where it sent one.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::Deserialize;

/// What the server said when it refused a request: an RFC 9457 problem document. Every field may be
/// missing, because a proxy on the way answers in its own manner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// Which problem, for programs.
    pub code: Option<String>,
    /// Which problem, in a few words.
    pub title: Option<String>,
    /// What happened this time.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether the same request may succeed later.
    pub temporary: Option<bool>,
    /// Of SQL: where it is wrong, in characters from 1.
    pub position: Option<usize>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.detail.as_deref().or(self.title.as_deref());
        f.write_str(what.unwrap_or("the server refused it"))?;
        if let Some(code) = &self.code {
            write!(f, " ({code})")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

/// A request that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server's address, the stream's name or the token cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// No answer came: the server cannot be reached, or the connection broke on the way.
    #[error("no answer from {url}: {}", why(.cause))]
    NoAnswer {
        /// The server.
        url: String,
        /// What the transport said. It is in the message, and so not a source of its own.
        cause: reqwest::Error,
    },
    /// A live connection ended.
    #[error("the connection to {url} was lost: {why}")]
    Lost {
        /// The server.
        url: String,
        /// What happened to it.
        why: String,
    },
    /// The server answered with an error.
    #[error("{}", refusal(*.status, .problem))]
    Refused {
        /// The answer's HTTP status.
        status: u16,
        /// What it said; boxed, because it is much larger than the other variants.
        problem: Box<Problem>,
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The answer is not one of the protocol.
    #[error("the server's answer is not understood: {0}")]
    NotUnderstood(String),
}

/// Why a server cannot be talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectFailure {
    /// Nobody listens there.
    NobodyListens,
    /// Whoever listens there does not speak TLS.
    NotEncrypted,
    /// The server's certificate does not hold for us.
    Certificate,
    /// Something else.
    Other,
}

impl ClientError {
    /// Why the server could not be talked to; none if it was.
    pub fn unreached(&self) -> Option<ConnectFailure> {
        match self {
            ClientError::NoAnswer { cause, .. } => Some(unreached(cause)),
            _ => None,
        }
    }

    /// Whether the same request may succeed later without anyone changing it.
    pub fn temporary(&self) -> bool {
        match self {
            ClientError::Unusable(_) | ClientError::NotUnderstood(_) => false,
            ClientError::NoAnswer { .. } | ClientError::Lost { .. } => true,
            ClientError::Refused { status, problem, .. } => {
                problem.temporary.unwrap_or(matches!(status, 408 | 425 | 429 | 500..=599))
            }
        }
    }

    /// Whether it is a refusal of this kind.
    pub fn is(&self, code: &str) -> bool {
        match self {
            ClientError::Refused { problem, .. } => problem.code.as_deref() == Some(code),
            _ => false,
        }
    }

    /// The HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            ClientError::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// The transport's error wraps its cause several times over; only the cause tells a person
/// something ("connection refused").
fn innermost(error: &reqwest::Error) -> &(dyn std::error::Error + 'static) {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}

fn unreached(error: &reqwest::Error) -> ConnectFailure {
    let cause = innermost(error);
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if cause.downcast_ref::<io::Error>().is_some_and(refused) {
        return ConnectFailure::NobodyListens;
    }
    // The library of TLS is not ours to name; its words are.
    let text = cause.to_string();
    if text.contains("InvalidContentType") {
        return ConnectFailure::NotEncrypted;
    }
    match text.starts_with("invalid peer certificate") {
        true => ConnectFailure::Certificate,
        false => ConnectFailure::Other,
    }
}

fn why(error: &reqwest::Error) -> String {
    let cause = innermost(error);
    match unreached(error) {
        ConnectFailure::NobodyListens => "no server listens there (connection refused)".to_owned(),
        ConnectFailure::NotEncrypted => {
            "what listens there does not speak TLS; its address begins with http://".to_owned()
        }
        ConnectFailure::Certificate | ConnectFailure::Other => cause.to_string(),
    }
}

fn refusal(status: u16, problem: &Problem) -> String {
    if problem.detail.is_some() || problem.title.is_some() || problem.code.is_some() {
        problem.to_string()
    } else {
        format!("the server answered with status {status}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, problem: Problem) -> ClientError {
        ClientError::Refused { status, problem: Box::new(problem), retry_after: None }
    }

    #[test]
    fn the_message_says_what_happened_and_what_to_do() {
        let problem = Problem {
            code: Some("stream_closed".into()),
            title: Some("Closed".into()),
            detail: Some("the stream is closed".into()),
            hint: Some("append to another stream".into()),
            temporary: Some(false),
            position: None,
        };
        let error = refused(409, problem);
        let text = "the stream is closed (stream_closed); append to another stream";
        assert_eq!(error.to_string(), text);
        assert_eq!(error.status(), Some(409));
        assert!(!error.temporary());
    }

    #[test]
    fn without_a_problem_document_the_status_decides() {
        assert!(refused(503, Problem::default()).temporary());
        assert!(!refused(404, Problem::default()).temporary());
        let text = refused(502, Problem::default()).to_string();
        assert_eq!(text, "the server answered with status 502");
    }

    #[test]
    fn the_server_decides_when_it_says_so() {
        let problem = Problem { temporary: Some(false), ..Problem::default() };
        assert!(!refused(503, problem).temporary());
    }
}
