//! The clients of a story about faults: producers of every kind, and readers of both kinds, on two
//! streams. What they were promised is checked while they work and when they are done.

use crate::faults;
use crate::http::Http;
use crate::producers::{Plan, Producers};
use crate::readers::Reader;
use crate::transcript::Transcript;
use crate::wait::eventually;

/// Clients at work. Cut off when dropped.
#[derive(Debug)]
pub struct Traffic {
    http: Http,
    producers: Producers,
    /// One for each stream.
    readers: [Reader; 2],
    /// One for each stream, in the same order.
    transcripts: [Transcript; 2],
}

impl Traffic {
    /// Makes the streams and sets everyone to work.
    pub async fn start(http: &Http) -> Traffic {
        let (left, right) = ("left", "right");
        http.create(left).await;
        http.create(right).await;
        let plans = [
            Plan::plain("plain", left),
            Plan::plain("plain in batches", right).in_batches(),
            Plan::idempotent("idempotent", left),
            Plan::idempotent("idempotent in batches", left).in_batches(),
            Plan::idempotent("another idempotent", right),
        ];
        Traffic {
            http: http.clone(),
            producers: Producers::start(http, plans),
            readers: [Reader::long_poll(http, left), Reader::sse(http, right)],
            transcripts: [left, right].map(Transcript::new),
        }
    }

    /// Waits until some appends more have been acknowledged: between faults the server works.
    pub async fn flows(&self) {
        self.producers.progress(faults::appends_before()).await;
    }

    /// Waits until a producer has been refused once more.
    pub async fn is_refused(&self) {
        let before = self.producers.complaints().len();
        eventually("a producer is refused", async || {
            (self.producers.complaints().len() > before).then_some(())
        })
        .await;
    }

    /// Checks what the streams hold against what the producers know, while they go on.
    pub async fn check(&mut self) {
        for transcript in &mut self.transcripts {
            self.producers.check(&self.http, transcript).await;
        }
    }

    /// Lets everyone finish, and checks everything: what the producers were promised, that nothing
    /// read earlier has changed, and that the readers got each event once and in order.
    pub async fn ends_well(&mut self) {
        self.producers.stop().await;
        self.check().await;
        for (transcript, reader) in self.transcripts.iter().zip(&self.readers) {
            let again = Transcript::read(&self.http, transcript.stream()).await;
            transcript.is_kept_in(&again);
            reader.has_all_of(transcript).await;
        }
    }

    /// Checks that no client was ever told anything but to come back later, by a server that is
    /// there.
    pub fn was_only_asked_for_patience(&self) {
        let readers = self.readers.iter().flat_map(Reader::complaints);
        for complaint in self.producers.complaints().into_iter().chain(readers) {
            assert!(
                complaint.asks_to_come_back(),
                "a client was told something else than 503 with Retry-After: {complaint:?}"
            );
        }
    }
}
