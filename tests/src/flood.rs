//! A producer of large messages: enough of them, and one who does not read has filled every buffer.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::http::Http;
use crate::wait::within_patience;

/// Messages in one append, their size, and how long to wait before the next: some megabytes a
/// second, which leaves the machine to others.
const MESSAGES: usize = 10;
const MESSAGE_BYTES: usize = 5 << 10;
const PAUSE: Duration = Duration::from_millis(25);

/// Bytes of payload in one append.
const APPEND_BYTES: usize = MESSAGES * MESSAGE_BYTES;

/// Appends without end, each of which must be accepted. Cut off when dropped.
#[derive(Debug)]
pub struct Flood {
    stop: watch::Sender<bool>,
    appended: watch::Receiver<usize>,
    task: JoinSet<()>,
}

impl Flood {
    /// Begins to append to a stream, which must be there.
    pub fn start(http: &Http, stream: &str) -> Flood {
        let (stop, stopped) = watch::channel(false);
        let (count, appended) = watch::channel(0);
        let (http, path) = (http.clone(), format!("/v1/stream/{stream}"));
        let mut task = JoinSet::new();
        task.spawn(async move {
            while !*stopped.borrow() {
                let n = *count.borrow();
                let answer = http.json(reqwest::Method::POST, &path, &messages(n)).await;
                assert_eq!(answer.status, 204, "append to {path}: {}", answer.text());
                count.send_replace(n + 1);
                tokio::time::sleep(PAUSE).await;
            }
        });
        Flood { stop, appended, task }
    }

    /// Bytes of payload that are in the stream.
    pub fn appended_bytes(&self) -> usize {
        *self.appended.borrow() * APPEND_BYTES
    }

    /// Waits until so many bytes more are in the stream.
    pub async fn rises(&mut self, bytes: usize) {
        let goal = *self.appended.borrow() + bytes.div_ceil(APPEND_BYTES);
        let risen = self.appended.wait_for(|count| *count >= goal);
        let risen = within_patience("the flood rises", risen).await;
        assert!(risen.is_ok(), "an append was refused");
    }

    /// Lets the last append finish.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let ended = within_patience("the last append", self.task.join_next()).await;
        ended.expect("one task").expect("an append that is accepted");
    }
}

fn messages(n: usize) -> Value {
    let text = "x".repeat(MESSAGE_BYTES);
    (0..MESSAGES).map(|part| json!({ "n": n, "part": part, "text": text })).collect()
}
