//! Groups, and events for them, for the tests that work on them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::Opener;
use super::rows::{LIMITS, values};
use super::test_store::TestStore;
use tidewire_store::command::{Actor, Append};
use tidewire_store::groups::{
    Assembled, Batch, Begun, Claim, DeadEvents, Ending, Failure, Filter, GroupEvent, GroupSettings,
    GroupView, Holdings, Key, LETTERS_BYTES_MAX, LeaseRef, Letter, Limits, LogPage, PAGE_BYTES_MAX,
    Pages, SharedGroups, Verdict, Wants, Work,
};
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;
use tidewire_store::testing::commands;

/// The group that most tests have.
pub(super) const GROUP: &str = "g";
/// The stream that all appends go to.
pub(super) const STREAM: &str = "s";
/// All letters that a test has.
pub(super) const LETTERS: PageLimit = PageLimit { events: 10_000, bytes: LETTERS_BYTES_MAX };
/// Longer than any test.
pub(super) const LONG_MS: u64 = 600_000;

/// A store with an empty stream of JSON, and its groups.
pub(super) struct GroupFixture<'a> {
    pub(super) data: &'a dyn Opener,
    pub(super) store: TestStore,
    pub(super) groups: SharedGroups,
}

/// A group of so many partitions that begins with the log.
pub(super) fn wish(partitions: u32) -> GroupSettings {
    GroupSettings { partitions: Some(partitions), ..GroupSettings::default() }
}

pub(super) fn key(host: &str, user: &str) -> Key {
    Key::of(Some(host), Some(user))
}

pub(super) fn letter(event: &Arc<GroupEvent>, error: &str) -> Letter {
    Letter { event: Arc::clone(event), error: error.to_owned(), attempts: 3 }
}

pub(super) fn failure(event: &GroupEvent, error: &str) -> Failure {
    let (key, first, error) = (event.key(), event.position, error.to_owned());
    Failure { key, first, verdict: Verdict::Retry, error }
}

/// A host of a partition.
pub(super) fn host_in(partition: u32, total: u32) -> String {
    let total = NonZeroU32::new(total).expect("partitions");
    let mut hosts = (0..).map(|number| format!("host-{number}"));
    let found = hosts.find(|host| tidewire_store::groups::partition_of(host, total) == partition);
    found.expect("every partition has hosts")
}

/// A batch's events that are to be handled, by position.
pub(super) fn handled(batch: &Batch) -> Vec<Arc<GroupEvent>> {
    let mut events: Vec<_> =
        batch.groups.iter().flat_map(|group| group.events.iter().cloned()).collect();
    events.sort_by_key(|event| event.position);
    events
}

/// What a batch ends with if all of it was handled.
pub(super) fn well_done(batch: &Batch) -> Ending {
    batch.ending()
}

impl<'a> GroupFixture<'a> {
    pub(super) async fn open(data: &'a dyn Opener) -> GroupFixture<'a> {
        let store = TestStore::open(data).await;
        store.create(commands::create_json(STREAM)).await;
        let groups = store.groups();
        GroupFixture { data, store, groups }
    }

    /// The same with a group of so many partitions.
    pub(super) async fn of(data: &'a dyn Opener, partitions: u32) -> GroupFixture<'a> {
        let fixture = GroupFixture::open(data).await;
        fixture.makes(GROUP, &wish(partitions)).await;
        fixture
    }

    pub(super) async fn makes(&self, group: &str, wish: &GroupSettings) -> GroupView {
        let (view, made) = self.groups.put_group(group, wish).await.expect("a group is made");
        assert!(made, "{group} is there already");
        view
    }

    pub(super) async fn view(&self) -> GroupView {
        self.groups.group(GROUP).await.expect("a group can be read").expect("the group is there")
    }

    /// Several messages of somebody in one append. Returns the last one's position.
    pub(super) async fn say(&self, host: &str, user: &str, messages: &[&str]) -> Position {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let actor = Actor { host_id: some(host), user_id: some(user), ..Actor::default() };
        let trace_context = Some("00-trace".to_owned());
        let append = commands::append_json(STREAM, messages);
        self.store.append(Append { actor, trace_context, ..append }).await
    }

    /// A change of a row of the table `t`, as if it had been captured.
    pub(super) async fn row(&self, host: &str, txid: i64, tx_last: bool, created: u64) -> Position {
        let end = "SELECT coalesce(max(c_offset), 0) FROM tidewire.log ";
        let end = self.data.run_sql(end).await.join("").parse::<u64>().expect("a number");
        let position = end + 1;
        let insert = format!(
            "INSERT INTO tidewire.log (c_offset, stream_id, append_id, host_id, table_name, operation,
                 entity_id, before_data, after_data, txid, tx_last, created_at)
             VALUES ({position}, 'table/t', {position}, '{host}', 't', 'UPDATE', '{position}',
                 '{{\"id\": 1}}', '{{\"id\": 2}}', {txid}, {tx_last}, to_timestamp({created}))"
        );
        self.data.run_sql(&insert).await;
        Position::new(position)
    }

    pub(super) async fn holds(&self, partition: u32) -> Holdings {
        self.groups.holdings(GROUP, partition).await.expect("holdings")
    }

    /// The partition as it is, for somebody who wants to work on it.
    pub(super) async fn claim(&self, partition: u32, member: &str) -> Claim {
        self.holds(partition).await.claim(member, 20_000)
    }

    /// Gives a leased batch back, of which this event failed for good.
    pub(super) async fn buries(&self, lease: &LeaseRef, batch: &Batch, event: &Arc<GroupEvent>) {
        let held = self.holds(lease.partition).await;
        let (key, error) = (&event.key(), "poison".to_owned());
        let dead = DeadEvents { key, events: std::slice::from_ref(event), error };
        let ending = Ending::of_failures(batch, &held, &[dead]);
        self.groups.nack(lease, &[], &ending, 0).await.expect("it is given back");
    }

    pub(super) async fn begins(&self, claim: &Claim) -> Begun {
        self.groups.begin(claim).await.expect("a partition can be asked for")
    }

    pub(super) async fn works(&self, claim: &Claim) -> Box<dyn Work> {
        match self.begins(claim).await {
            Begun::Work(work) => work,
            other => panic!("expected work on {claim:?}, got {other:?}"),
        }
    }

    /// Works on a partition as it is, without a handler.
    pub(super) async fn ends(&self, partition: u32, ending: &Ending) {
        let work = self.works(&self.claim(partition, "m").await).await;
        work.finish(ending).await.expect("the batch ends");
    }

    pub(super) async fn wants(&self, filter: Filter, partitions: Option<&[u32]>) -> Arc<Wants> {
        let total = NonZeroU32::new(self.view().await.total).expect("partitions");
        let partitions = partitions.map(|list| list.iter().copied().collect());
        Arc::new(Wants { filter, total, partitions, page_bytes: PAGE_BYTES_MAX })
    }

    /// One page of the log.
    pub(super) async fn page(&self, after: u64, up_to: Position, wants: &Arc<Wants>) -> LogPage {
        let page = self.groups.log_page(Position::new(after), up_to, wants).await;
        page.expect("the log can be read")
    }

    /// The next batch of a partition, if there is one.
    pub(super) async fn next_batch(&self, partition: u32) -> Option<Batch> {
        let holdings = self.holds(partition).await;
        let wants = self.wants(holdings.group.filter.clone(), Some(&[partition])).await;
        let tip = self.groups.log_tip().await.expect("a tip");
        let (pages, next) = (Pages::new(1 << 20), holdings.partition.next);
        let limits = Limits {
            batch_events: 10_000,
            transaction_events_max: 10_000,
            ..Limits::of_bytes(64 << 20)
        };
        let assembled = pages.assemble(&*self.groups, &wants, &holdings, limits, next, tip).await;
        match assembled.expect("the log can be read") {
            Assembled::Batch(batch) => Some(batch),
            Assembled::Nothing { .. } => None,
            other => panic!("expected a batch, got {other:?}"),
        }
    }

    pub(super) async fn batch(&self, partition: u32) -> Batch {
        self.next_batch(partition).await.expect("there is work")
    }

    /// A table for what handlers do.
    pub(super) async fn ledger(&self) {
        self.data.run_sql("CREATE TABLE ledger (id INTEGER PRIMARY KEY, who TEXT)").await;
    }

    /// Books the partition's events one after the other, while others may do the same.
    pub(super) async fn races(&self, name: &str) {
        while let Some(batch) = self.next_batch(0).await {
            let claim = Claim { next: batch.from, ..self.claim(0, name).await };
            let Begun::Work(mut work) = self.begins(&claim).await else { continue };
            work.enter(true);
            let event = &handled(&batch)[0];
            let number = i64::try_from(event.position.number()).expect("few events");
            book(&mut work, number, name).await;
            let next = event.position.next();
            work.finish(&Ending { next, ..Ending::default() }).await.expect("it is committed");
        }
    }

    /// What is in it.
    pub(super) async fn booked(&self) -> Vec<String> {
        self.data.run_sql("SELECT who FROM ledger ORDER BY id").await
    }

    /// Letters, by position and state.
    pub(super) async fn letters(&self) -> Vec<(Position, &'static str)> {
        let letters = self.groups.letters(GROUP, Position::START, LETTERS, None).await;
        let letters = letters.expect("letters can be read").letters;
        let told = |letter: &tidewire_store::groups::LetterView| {
            (letter.letter.event.position, letter.state.as_str())
        };
        letters.iter().map(told).collect()
    }

    /// Keys with failed attempts, and how many.
    pub(super) async fn attempts(&self, partition: u32) -> BTreeMap<Key, (u32, Verdict)> {
        self.holds(partition).await.attempts
    }
}

/// Books something in the ledger.
pub(super) async fn book(work: &mut Box<dyn Work>, id: i64, who: &str) {
    let params = values(&[serde_json::json!(id), serde_json::json!(who)]);
    let sql = "INSERT INTO ledger (id, who) VALUES ($1, $2)";
    let booked = work.sql(sql, &params, LIMITS).await;
    booked.unwrap_or_else(|error| panic!("{id} {who}: {error:?}"));
}
