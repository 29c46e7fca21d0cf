//! A signed request for each batch, as <https://www.standardwebhooks.com> defines it.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, Url, redirect};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidewire_client::consume::Outcome;
use tidewire_client::groups::{Failed, KeyEvents};
use tidewire_client::{Backoff, Claimed};

/// The variable with the secret: an argument would be seen by other users of the machine.
const SECRET: &str = "TIDEWIRE_WEBHOOK_SECRET";
/// Secrets are often given with this in front, and in base64.
const SECRET_PREFIX: &str = "whsec_";
/// Shorter secrets can be guessed: the standard's least.
const SECRET_BYTES_MIN: usize = 24;
/// Requests for one batch, before it is given back as failed.
const TRIES_MAX: usize = 5;
/// The wait before the second of them is at most this,
const WAIT_BASE: Duration = Duration::from_millis(500);
/// and the longest.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// How much of an answer is read: the list of what failed, or the reason.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How much of an answer that is no success is kept as the error.
const ERROR_CHARS_MAX: usize = 1_000;

/// Where batches go.
pub(super) struct Webhook {
    url: Url,
    key: hmac::Key,
    http: reqwest::Client,
}

/// A batch, without what proves that it is ours.
#[derive(Serialize)]
struct Body<'a> {
    group: &'a str,
    partition: u32,
    from: &'a str,
    to: &'a str,
    redrive: bool,
    groups: &'a [KeyEvents],
}

/// What a receiver may say of a batch that it took.
#[derive(Deserialize)]
struct Answer {
    failed: Option<Vec<Failed>>,
}

impl Webhook {
    pub(super) fn new(url: &str, timeout: Duration) -> anyhow::Result<Webhook> {
        let url: Url = url.parse().with_context(|| format!("{url} is not a URL (--webhook)"))?;
        ensure!(
            matches!(url.scheme(), "http" | "https"),
            "--webhook takes http:// and https:// only"
        );
        let Ok(secret) = std::env::var(SECRET) else {
            bail!(
                "--webhook needs {SECRET}: the secret that signs what is sent, such as the output of \
                   `openssl rand -base64 32`"
            );
        };
        let http = reqwest::Client::builder()
            .timeout(timeout)
            // Elsewhere nobody is trusted with the events.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("tidewire/", env!("CARGO_PKG_VERSION")))
            .build()
            .context("no HTTP client")?;
        Ok(Webhook { url, key: key(&secret)?, http })
    }

    pub(super) async fn handle(&self, claimed: &Claimed) -> Outcome {
        let Claimed { group, partition, from, to, redrive, groups, .. } = claimed;
        let body = Body { group, partition: *partition, from, to, redrive: *redrive, groups };
        let body = match serde_json::to_string(&body) {
            Ok(body) => body,
            Err(error) => return Outcome::Stop(format!("the batch has no JSON form: {error}")),
        };
        let id = id(claimed);
        let mut backoff = Backoff::new(WAIT_BASE, WAIT_MAX);
        let mut error = String::new();
        for tried in 0..TRIES_MAX {
            if tried > 0 {
                tracing::warn!("{error}; trying again");
                tokio::time::sleep(backoff.next_wait(&mut rand::rng())).await;
            }
            match self.attempt(&id, &body, claimed).await {
                Ok(outcome) => return outcome,
                Err(why) => error = why,
            }
        }
        Outcome::Failed(claimed.all_failed(&error, None))
    }

    /// What one request came to. An error: it is worth another.
    async fn attempt(&self, id: &str, body: &str, claimed: &Claimed) -> Result<Outcome, String> {
        let response = self.post(id, body.to_owned()).await;
        let response =
            response.map_err(|source| format!("no answer from {}: {source}", self.shown()))?;
        let status = response.status();
        let answered = format!("{} answered {}", self.shown(), status.as_u16());
        if status.is_success() {
            let failed = answer(response).await.and_then(|body| not_done(&body, claimed));
            // An answer that is not understood may list what failed: nothing of the batch counts as done.
            return match failed.map_err(|why| format!("{answered}, {why}"))? {
                failed if failed.is_empty() => Ok(Outcome::Done(Vec::new())),
                failed => Ok(Outcome::Failed(failed)),
            };
        }
        let error = format!("{answered}{}", reason(response).await);
        match status.as_u16() {
            410 | 422 => Ok(Outcome::Failed(claimed.all_failed(&error, Some("dead")))),
            _ => Err(error),
        }
    }

    async fn post(&self, id: &str, body: String) -> Result<Response, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", signature(&self.key, id, now, &body))
            .body(body);
        request.send().await.map_err(|error| innermost(&error.without_url()))
    }

    /// The URL without what may be secret in it.
    fn shown(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

fn key(secret: &str) -> anyhow::Result<hmac::Key> {
    let bytes = match secret.strip_prefix(SECRET_PREFIX) {
        Some(encoded) => {
            let bytes = BASE64_STANDARD.decode(encoded);
            bytes.with_context(|| format!("{SECRET} is not base64 behind {SECRET_PREFIX}"))?
        }
        None => secret.as_bytes().to_vec(),
    };
    ensure!(bytes.len() >= SECRET_BYTES_MIN, "{SECRET} is shorter than {SECRET_BYTES_MIN} bytes");
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

fn signature(key: &hmac::Key, id: &str, timestamp: u64, body: &str) -> String {
    let tag = hmac::sign(key, format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", BASE64_STANDARD.encode(tag))
}

/// Names the batch, the same in each request for it. One that is handed out again may have grown, and then has another
/// name. Letters come from anywhere before the place where the
/// partition stands, so they are named by themselves.
fn id(claimed: &Claimed) -> String {
    let Claimed { group, partition, from, to, redrive, groups, .. } = claimed;
    // A header has no other characters, and the signature takes the id's end from its full stop.
    let mut name = String::new();
    for byte in group.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    let events = || groups.iter().flat_map(|group| &group.events);
    if *redrive {
        let offset =
            |event: Option<&Box<RawValue>>| event.map(|event| offset(event)).unwrap_or_default();
        let (first, last) = (offset(events().next()), offset(events().last()));
        return format!("{name}:{partition}:redrive:{first}:{last}");
    }
    format!("{name}:{partition}:{from}:{to}")
}

fn offset(event: &RawValue) -> String {
    #[derive(Default, Deserialize)]
    struct Event {
        #[serde(default)]
        offset: String,
    }
    serde_json::from_str::<Event>(event.get()).unwrap_or_default().offset
}

/// All that the receiver said of a batch that it took, or why that is not known.
async fn answer(response: Response) -> Result<Vec<u8>, String> {
    match beginning(response).await {
        (_, Some(error)) => Err(format!("and the answer broke off: {error}")),
        (body, None) if body.len() >= ANSWER_BYTES_MAX => {
            Err(format!("with more than the {ANSWER_BYTES_MAX} bytes that are read"))
        }
        (body, None) => Ok(body),
    }
}

/// What failed, as the receiver says. Nothing did, if it says nothing or something that is no JSON object: but the
/// beginning of one may be all that came of a list.
fn not_done(body: &[u8], claimed: &Claimed) -> Result<Vec<Failed>, String> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return Ok(Vec::new());
    }
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| format!("with a list of what failed that cannot be read: {error}"))?;
    let failed = answer.failed.unwrap_or_default();
    let id = |id: &Option<String>| id.clone().unwrap_or_default();
    let keys: HashMap<(String, String), &KeyEvents> =
        claimed.groups.iter().map(|key| ((id(&key.host_id), id(&key.user_id)), key)).collect();
    for one in &failed {
        let key = (id(&one.host_id), id(&one.user_id));
        let Some(of_key) = keys.get(&key) else {
            return Err(format!("and says that {key:?} failed, of which the batch has no events"));
        };
        if let Some(blamed) = &one.offset
            && !of_key.events.iter().any(|event| offset(event) == *blamed)
        {
            return Err(format!("and names {blamed:?}, which is not an event of {key:?}"));
        }
        if !matches!(one.verdict.as_deref(), None | Some("retry" | "dead")) {
            return Err(format!("with a verdict on {key:?} that is neither retry nor dead"));
        }
    }
    Ok(failed)
}

/// What the receiver said of a refusal.
async fn reason(response: Response) -> String {
    let (body, _) = beginning(response).await;
    let text: String =
        String::from_utf8_lossy(&body).trim().chars().take(ERROR_CHARS_MAX).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

/// As much of an answer as is read, and what kept us from reading on.
async fn beginning(mut response: Response) -> (Vec<u8>, Option<String>) {
    let mut body = Vec::new();
    while body.len() < ANSWER_BYTES_MAX {
        match response.chunk().await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => break,
            Err(error) => return (body, Some(innermost(&error.without_url()))),
        }
    }
    (body, None)
}

/// Only the innermost cause tells a person something ("connection refused").
fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn claimed(group: &str, redrive: bool) -> Claimed {
        let document = serde_json::json!({
            "token": "t", "group": group, "partition": 3, "lease_ms": 1000, "from": "0001_1",
            "to": "0001_9", "redrive": redrive,
            "groups": [{ "host_id": null, "user_id": null, "events": [
                { "offset": "0001_4" }, { "offset": "0001_7" }] }],
        });
        serde_json::from_value(document).expect("a batch")
    }

    /// The example of the specification, by its reference implementation.
    #[test]
    fn what_is_sent_is_signed_as_the_standard_has_it() {
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let signed = signature(
            &key,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_short_or_broken_secret_is_refused() {
        for secret in ["", "tiny-one", "whsec_", "whsec_!!", "whsec_c2hvcnQ="] {
            let error = key(secret).expect_err("refused").to_string();
            assert!(error.contains(SECRET), "{error}");
            assert!(secret.len() < 5 || !error.contains(secret), "{error}");
        }
        key("a secret of twenty-four or more bytes").expect("text is fine too");
    }

    #[test]
    fn what_may_be_a_list_of_what_failed_is_never_taken_for_done() {
        let failed = |body: &str| not_done(body.as_bytes(), &claimed("g", false));
        for done in
            ["", "thank you", "null", "[]", " {} ", r#"{"failed": []}"#, r#"{"failed": null}"#]
        {
            assert_eq!(failed(done), Ok(Vec::new()), "{done}");
        }
        let named =
            failed(r#"{"failed": [{"error": "e", "offset": "0001_7", "verdict": "dead"}]}"#);
        assert_eq!(named.expect("as the batch has it").len(), 1);
        for (broken, why) in [
            (r#"{"failed":[{"host_id":"#, "cannot be read"),
            (r#"{"failed": [{"host_id": 7}]}"#, "cannot be read"),
            (r#"{"failed": "all"}"#, "cannot be read"),
            (r#"{"failed": [{"host_id": "another's"}]}"#, "the batch has no events"),
            (r#"{"failed": [{"offset": "0001_8"}]}"#, "which is not an event of"),
            (r#"{"failed": [{"verdict": "deadly"}]}"#, "neither retry nor dead"),
        ] {
            let refused = failed(broken).expect_err(broken);
            assert!(refused.contains(why), "{broken}: {refused}");
        }
    }

    /// Answers each request with the same bytes, and then hangs up.
    async fn attempt_at(answer: String) -> Result<Outcome, String> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serving = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.expect("a connection");
                let mut asked = vec![0; 1 << 16];
                let _ = socket.read(&mut asked).await;
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        let webhook = Webhook {
            url: url.parse().expect("a URL"),
            key: key("a secret of twenty-four or more bytes").expect("a secret"),
            http: reqwest::Client::builder().no_proxy().build().expect("a client"),
        };
        let outcome = webhook.attempt("id", "{}", &claimed("g", false)).await;
        serving.abort();
        outcome
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_or_is_too_long_is_no_success() {
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length";
        let long = "x".repeat(ANSWER_BYTES_MAX);
        for (answer, says) in [
            (format!("{head}: 99\r\n\r\n"), "broke off"),
            (format!("{head}: {}\r\n\r\n{long}", long.len()), "bytes that are read"),
        ] {
            let error = attempt_at(answer).await.expect_err("not understood");
            assert!(error.contains(says), "{error}");
        }
        let fine = format!("{head}: 2\r\n\r\nok");
        assert!(matches!(attempt_at(fine).await, Ok(Outcome::Done(_))));
    }

    #[test]
    fn a_batch_is_named_by_where_it_is_and_letters_by_themselves() {
        assert_eq!(id(&claimed("billing", false)), "billing:3:0001_1:0001_9");
        assert_eq!(id(&claimed("a.b ö", false)), "a%2Eb%20%C3%B6:3:0001_1:0001_9");
        assert_eq!(id(&claimed("g", true)), "g:3:redrive:0001_4:0001_7");
    }
}
