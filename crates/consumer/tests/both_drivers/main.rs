//! The library and the server hand out the same batches in the same order: two groups over one log, one worked on by
//! the library, the other claimed over HTTP, through the same histories, on both stores.
//!
//! In them are transactions of many keys and partitions, keys that fail and heal, that die and are parked or not,
//! letters that are worked off again beside the log, batches that end by their events and by their bytes, and a
//! change of the number of partitions in the middle. Some groups read all of the log, some its table, some its other
//! streams. What becomes of an event is in the event.

mod fixture;
mod history;
mod http;
mod library;
mod transcript;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tidewire_store::groups::{
    Filter, GroupChange, GroupSettings, GroupView, Groups, LETTERS_BYTES_MAX, LetterSelection,
    OnDead, PAGE_BYTES_MAX, SharedGroups, Wants, partition_of,
};
use tidewire_store::{PageLimit, Position};
use tokio::time::Instant;

use crate::fixture::{Fixture, STREAM, TABLE};
use crate::history::{HEALING, MIXED, SOURCE_EVENTS_MAX, Source, plain, sources, stubborn};
use crate::http::Http;
use crate::library::Library;

/// Batch sizes, filters and choices for the dead change with the seed, each at its own pace.
const SEEDS_ON_SQLITE: u64 = 8;
/// The same decisions on a store that is slower.
const SEEDS_ON_POSTGRES: u64 = 4;
/// Nothing that dies by its attempts does so before those that heal have.
const MAX_ATTEMPTS: u32 = 4;
const TRANSACTION_EVENTS_MAX: usize = SOURCE_EVENTS_MAX;
/// So that the largest of the batches end by their bytes.
const BYTES_MAX: usize = 4_500;
/// Batches smaller and larger than a transaction may be.
const BATCH_SIZES: [usize; 4] = [3, 12, 1, 8];
const PARTITIONS: [u32; 2] = [3, 5];
const LETTERS: PageLimit = PageLimit { events: 10_000, bytes: LETTERS_BYTES_MAX };
/// A test that waits for longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn both_drivers_walk_alike_on_sqlite() {
    for seed in 0..SEEDS_ON_SQLITE {
        walk(Fixture::sqlite().await, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_drivers_walk_alike_on_postgres() {
    for seed in 0..SEEDS_ON_POSTGRES {
        walk(Fixture::postgres().await, seed).await;
    }
}

/// One history.
async fn walk(fixture: Fixture, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let pair = Pair::start(fixture, seed).await;
    // A group that leaves out half of them has as much to do.
    let as_many = if pair.filter.is_all() { 1 } else { 2 };
    for total in PARTITIONS {
        pair.put(sources(&mut rng, 30 * as_many, MIXED)).await;
        pair.put(vec![pair.of_its_own(stubborn("host-1", 2))]).await;
        pair.drain(total).await;
        // Letters take turns with the log.
        pair.redrive(&LetterSelection::All).await;
        pair.put(sources(&mut rng, 20 * as_many, HEALING)).await;
        pair.drain(total).await;
        // With the log's turn last in every partition, both begin anew from here.
        pair.put(pair.plain(pair.hosts(total))).await;
        pair.drain(total).await;
        pair.compare(seed).await;
        if total != PARTITIONS[1] {
            pair.change_partitions(&mut rng, total).await;
        }
    }
    let (all, letters) = pair.library.transcript.lock().expect("no panic").counts();
    assert!(
        all > 40 && letters > 3,
        "seed {seed} shows little: {all} batches, {letters} of letters"
    );
    pair.meet_one_too_large(seed).await;
    pair.http.end().await;
    pair.fixture.end().await;
}

/// Both drivers, over one log.
struct Pair {
    fixture: Fixture,
    groups: SharedGroups,
    library: Library,
    http: Http,
    /// What both read.
    filter: Filter,
}

impl Pair {
    async fn start(fixture: Fixture, seed: u64) -> Pair {
        let groups = fixture.groups();
        let choice = usize::try_from(seed).expect("a small seed");
        let batch_size = BATCH_SIZES[choice % BATCH_SIZES.len()];
        let on_dead = if choice % 3 == 2 { OnDead::Skip } else { OnDead::Park };
        let filter = match (choice + choice / BATCH_SIZES.len()) % 3 {
            0 => Filter::default(),
            1 => Filter { tables: vec![TABLE.to_owned()], ..Filter::default() },
            _ => Filter { streams: vec![STREAM.to_owned()], ..Filter::default() },
        };
        let wish = GroupSettings {
            filter: Some(filter.clone()),
            partitions: Some(PARTITIONS[0]),
            max_attempts: Some(MAX_ATTEMPTS),
            on_dead: Some(on_dead),
            ..GroupSettings::default()
        };
        for group in [library::GROUP, http::GROUP] {
            groups.put_group(group, &wish).await.expect("a group");
        }
        let transcript = Arc::new(Mutex::default());
        let library = Library { groups: Arc::clone(&groups), batch_size, transcript };
        let http = Http::start(fixture.store(), batch_size, on_dead).await;
        Pair { fixture, groups, library, http, filter }
    }

    async fn put(&self, sources: Vec<Source>) {
        self.fixture.put(&sources).await;
    }

    /// An event of each of these hosts, all of them well.
    fn plain(&self, hosts: Vec<String>) -> Vec<Source> {
        match self.filter.streams.is_empty() {
            true => vec![plain(hosts)],
            // An append is of one host.
            false => {
                hosts.into_iter().map(|host| Source::Append(plain([host]).into_rows())).collect()
            }
        }
    }

    /// The same of what both read: as a transaction, or as an append of its first row's host and user.
    fn of_its_own(&self, source: Source) -> Source {
        match self.filter.streams.is_empty() {
            true => Source::Transaction(source.into_rows()),
            false => Source::Append(source.into_rows()),
        }
    }

    /// A host of each partition.
    fn hosts(&self, total: u32) -> Vec<String> {
        (0..total).map(|partition| host_of(partition, total)).collect()
    }

    async fn redrive(&self, which: &LetterSelection) {
        for group in [library::GROUP, http::GROUP] {
            self.groups.redrive(group, which).await.expect("they are marked");
        }
    }

    /// Both work off all that is there.
    async fn drain(&self, total: u32) {
        self.work(&Until::Drained { total, events: self.events().await }).await;
    }

    /// Both work, one after the other.
    async fn work(&self, until: &Until) {
        let events = self.events().await;
        for transcript in [&self.library.transcript, &self.http.transcript] {
            transcript.lock().expect("no panic").events.clone_from(&events);
        }
        self.library.work(until).await;
        self.http.work(until).await;
    }

    /// All events that both read: where they are, and of which host.
    async fn events(&self) -> Vec<(Position, String)> {
        let total = NonZeroU32::MIN;
        let (filter, page_bytes) = (self.filter.clone(), PAGE_BYTES_MAX);
        let wants = Arc::new(Wants { filter, total, partitions: None, page_bytes });
        let tip = self.groups.log_tip().await.expect("a tip");
        let (mut after, mut events) = (Position::START, Vec::new());
        while after < tip {
            let page = self.groups.log_page(after, tip, &wants).await.expect("a page");
            let whole = page.entries.iter().filter(|entry| !entry.control);
            let whole = whole.filter_map(|entry| entry.event.as_ref());
            events.extend(
                whole.map(|event| (event.position, event.host_id.clone().unwrap_or_default())),
            );
            after = page.scanned_to;
        }
        events
    }

    /// One partition runs ahead, to the end of the log; the others are changed behind it.
    async fn change_partitions(&self, rng: &mut StdRng, total: u32) {
        self.put(sources(rng, 15, MIXED)).await;
        let ahead = rng.random_range(0..total);
        self.put(self.plain(vec![host_of(ahead, total)])).await;
        self.work(&Until::Partition(ahead)).await;
        let change = GroupChange { partitions: Some(PARTITIONS[1]), ..GroupChange::default() };
        let mut barriers = Vec::new();
        for group in [library::GROUP, http::GROUP] {
            let view = self.groups.change_group(group, &change).await.expect("a change");
            barriers.push(view.barrier);
        }
        let end = self.groups.log_tip().await.expect("a tip").next();
        assert_eq!(barriers, [Some(end), Some(end)], "where the one that ran ahead stands");
    }

    /// What was handed out, in which order, what became letters, and what was written to have it so.
    async fn compare(&self, seed: u64) {
        self.compare_transcripts(seed);
        let letters = (self.letters(library::GROUP).await, self.letters(http::GROUP).await);
        assert_eq!(letters.0, letters.1, "seed {seed}: letters");
        let writes = self.fixture.letter_writes(library::GROUP).await;
        assert!(!writes.is_empty(), "seed {seed}: nothing became a letter");
        let others = self.fixture.letter_writes(http::GROUP).await;
        assert_eq!(writes, others, "seed {seed}: letters that were written, also again");
    }

    fn compare_transcripts(&self, seed: u64) {
        let library = self.library.transcript.lock().expect("no panic");
        library.assert_same(&self.http.transcript.lock().expect("no panic"), seed);
    }

    async fn letters(&self, group: &str) -> Vec<(u64, &'static str, u32, String)> {
        let page = self.groups.letters(group, Position::START, LETTERS, None).await;
        let letters = page.expect("letters").letters.into_iter();
        let told = letters.map(|view| {
            let letter = view.letter;
            (letter.event.position.number(), view.state.as_str(), letter.attempts, letter.error)
        });
        told.collect()
    }

    /// A transaction with one event more than it may have stops a partition, whoever asks for how much.
    async fn meet_one_too_large(&self, seed: u64) {
        let host = host_of(0, PARTITIONS[1]);
        self.put(vec![self.of_its_own(plain(vec![host; TRANSACTION_EVENTS_MAX + 1]))]).await;
        self.work(&Until::Trouble).await;
        let mut said = Vec::new();
        for group in [library::GROUP, http::GROUP] {
            let trouble = view(&*self.groups, group).await.partitions[0].trouble.clone();
            let trouble = trouble.expect("it stands still");
            said.push(trouble.split([',', ';']).next().unwrap_or_default().to_owned());
        }
        assert_eq!(said[0], said[1], "seed {seed}");
        assert!(said[0].starts_with("transaction_too_large: "), "{said:?}");
    }
}

fn host_of(partition: u32, total: u32) -> String {
    let total = NonZeroU32::new(total).expect("partitions");
    let mut hosts = (0..).map(|number| format!("host-{number}"));
    hosts.find(|host| partition_of(host, total) == partition).expect("every partition has hosts")
}

async fn view(groups: &dyn Groups, group: &str) -> GroupView {
    groups.group(group).await.expect("a look").expect("the group is there")
}

/// How long a driver works.
enum Until {
    /// Until every event was passed by its partition, of which there are so many, and no letter waits to be worked off.
    Drained { total: u32, events: Vec<(Position, String)> },
    /// Until this partition, and no other, stands at the end of the log.
    Partition(u32),
    /// Until the first partition stands still.
    Trouble,
}

/// When a driver is given up.
struct Deadline(Instant);

impl Deadline {
    async fn check(&self, groups: &dyn Groups, group: &str) {
        if Instant::now() > self.0 {
            panic!("{group} does not come to an end: {:#?}", view(groups, group).await);
        }
    }
}

impl Until {
    fn deadline(&self) -> Deadline {
        Deadline(Instant::now() + PATIENCE)
    }

    async fn wait(&self, groups: &dyn Groups, group: &str) {
        let deadline = self.deadline();
        while !self.is_over(groups, group).await {
            deadline.check(groups, group).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn is_over(&self, groups: &dyn Groups, group: &str) -> bool {
        let view = view(groups, group).await;
        match self {
            Until::Drained { total, events } => {
                let Some(modulus) = NonZeroU32::new(view.total) else { return false };
                let passed = |(position, host): &(Position, String)| {
                    view.partitions[partition_of(host, modulus) as usize].next > *position
                };
                view.total == *total
                    && view.wanted.is_none()
                    && events.iter().all(passed)
                    && view.partitions.iter().all(|at| !at.redrive)
            }
            Until::Partition(pinned) => {
                let tip = groups.log_tip().await.expect("a tip");
                view.partitions[*pinned as usize].next > tip
            }
            Until::Trouble => view.partitions[0].trouble.is_some(),
        }
    }
}
