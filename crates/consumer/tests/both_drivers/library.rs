//! The library as a driver.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidewire_consumer::{
    Consumer, Context, Event, EventExt as _, Group, Handler, HandlerError, Source,
};
use tidewire_store::groups::SharedGroups;

use crate::history::Fate;
use crate::transcript::Transcript;
use crate::{BYTES_MAX, TRANSACTION_EVENTS_MAX, Until};

pub(crate) const GROUP: &str = "library";

pub(crate) struct Library {
    pub(crate) groups: SharedGroups,
    pub(crate) batch_size: usize,
    pub(crate) transcript: Arc<Mutex<Transcript>>,
}

impl Library {
    /// Works for as long as there is something to do.
    pub(crate) async fn work(&self, until: &Until) {
        let mut member = Consumer::builder(Source::Groups(Arc::clone(&self.groups)))
            .group(GROUP)
            .batch_size(self.batch_size)
            .transaction_max(TRANSACTION_EVENTS_MAX, BYTES_MAX)
            .retry(Duration::from_millis(1), Duration::from_millis(5))
            .wait_period(Duration::from_millis(50))
            .signals(false);
        if let Until::Partition(pinned) = until {
            member = member.pin(*pinned);
        }
        let notes =
            Notes { groups: Arc::clone(&self.groups), transcript: Arc::clone(&self.transcript) };
        let member = member.start(notes).await.expect("a member");
        until.wait(&*self.groups, GROUP).await;
        member.stop().await.expect("it stops");
    }
}

/// Does with events as they say, and notes it.
struct Notes {
    groups: SharedGroups,
    transcript: Arc<Mutex<Transcript>>,
}

fn what(event: &Event) -> String {
    let document: serde_json::Value = event.json().expect("JSON");
    document["what"].as_str().expect("a fate").to_owned()
}

#[async_trait]
impl Handler for Notes {
    async fn handle(&self, group: &Group<'_>, _: &mut Context<'_>) -> Result<(), HandlerError> {
        let (partition, attempt) = (group.partition(), group.attempt());
        let who = (group.host_id().to_owned(), group.user_id().to_owned());
        let events: Vec<u64> = group.events().iter().map(|event| event.position.number()).collect();
        // What others see of the partition is where this batch begins.
        let held = self.groups.holdings(GROUP, partition).await.expect("holdings");
        let fates =
            group.events().iter().map(|event| Fate::of(&what(event), attempt, group.is_redrive()));
        let failing = fates.zip(&events).find(|(fate, _)| *fate != Fate::Well);
        let mut transcript = self.transcript.lock().expect("no panic");
        match group.is_redrive() {
            true => transcript.letters(partition, &who, attempt, &events),
            false => {
                let from = transcript.first_event(&held);
                transcript.handed_out(partition, from, &who);
            }
        }
        let Some((fate, &event)) = failing else {
            if !group.is_redrive() {
                let from = transcript.first_event(&held);
                transcript.handled(partition, from, &who, &events);
            }
            return Ok(());
        };
        transcript.failed(partition, &who, attempt, event);
        let error = match fate {
            Fate::Dead => HandlerError::dead(fate.error()),
            _ => HandlerError::retry(fate.error()),
        };
        Err(error.at(event))
    }
}
