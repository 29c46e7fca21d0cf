//! Retention where groups read: it waits for them, and tells those that it could not wait for.

use super::Opener;
use super::group_fixture::{GROUP, wish};
use super::retention::{Captured, HOUR_MS, TABLE, hourly};
use tidewire_store::groups::{Begun, Claim, Filter, GroupChange, GroupSettings, GroupView, Start};
use tidewire_store::offset::Position;
use tidewire_store::retention::RetentionRules;

impl Captured<'_> {
    async fn group(&self, wish: &GroupSettings) -> GroupView {
        let made = self.store.groups().put_group(GROUP, wish).await;
        made.expect("a group is made").0
    }

    async fn group_goes_on_after(&self, position: Position) {
        let groups = self.store.groups();
        let to = Start::After(position.in_epoch(groups.log_epoch()));
        groups.reset_group(GROUP, to, None, false).await.expect("a reset");
    }

    async fn view_of_group(&self) -> GroupView {
        let view = self.store.groups().group(GROUP).await;
        view.expect("a group can be read").expect("the group is there")
    }
}

fn reads(table: &str) -> GroupSettings {
    let filter = Filter { tables: vec![table.to_owned()], streams: Vec::new() };
    GroupSettings { filter: Some(filter), ..wish(2) }
}

/// What a group has not read stays, until it has, or is removed.
pub async fn a_group_that_lags_is_waited_for(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[5, 4, 3, 0]).await;
    log.group(&wish(2)).await;
    let done = log.retains(&hourly()).await;
    assert_eq!((done.streams_trimmed, done.streams_held_back), (0, 1));
    log.group_goes_on_after(rows[1]).await;
    log.retains(&hourly()).await;
    assert_eq!(log.positions(TABLE).await, rows[2..]);
    assert_eq!(log.view_of_group().await.stopped, None);
    log.store.groups().remove_group(GROUP).await.expect("it is removed");
    log.retains(&hourly()).await;
    assert_eq!(log.positions(TABLE).await, rows[3..]);
}

/// A group holds only what it reads.
pub async fn a_group_holds_what_it_reads(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[5, 4, 3, 0]).await;
    log.group(&reads("t")).await;
    assert_eq!(log.retains(&hourly()).await.streams_held_back, 1);
    log.store.groups().remove_group(GROUP).await.expect("it is removed");
    log.group(&reads("other")).await;
    log.retains(&hourly()).await;
    assert_eq!(log.positions(TABLE).await, rows[3..]);
    assert_eq!(log.view_of_group().await.stopped, None, "it lost nothing");
}

/// Progress that SQL keeps without a group is waited for as well.
pub async fn progress_without_a_group_is_waited_for(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[5, 4, 3, 0]).await;
    let insert = format!(
        "INSERT INTO tidewire.consumer_offsets (group_id, topic_id, partition_id, next_offset)
         VALUES ('by-hand', 1, 0, {}), ('by-hand', 1, 1, 1000)",
        rows[0].next().number()
    );
    data.run_sql(&insert).await;
    log.retains(&hourly()).await;
    assert_eq!(log.positions(TABLE).await, rows[1..]);
}

/// A group that lags past the hard limit stops, and says what it lost, until somebody accepts that.
pub async fn a_group_past_the_hard_limit_stops(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[50, 40, 3, 0]).await;
    log.group(&wish(1)).await;
    let rules = RetentionRules { hard_age_ms: Some(24 * HOUR_MS), ..hourly() };
    let done = log.retains(&rules).await;
    assert_eq!(log.positions(TABLE).await, rows[2..]);
    assert_eq!(done.lagging.len(), 1, "{done:?}");
    let view = log.view_of_group().await;
    assert_eq!((view.stopped.as_deref(), view.lost_to), (Some("events_lost"), rows[1]));
    let groups = log.store.groups();
    let partition = &view.partitions[0];
    let claim = Claim {
        group: GROUP.to_owned(),
        partition: 0,
        member: "m".to_owned(),
        generation: partition.generation,
        next: partition.next,
        timeout_ms: 20_000,
    };
    assert!(matches!(groups.begin(&claim).await, Ok(Begun::Taken)));
    let resume = GroupChange { paused: Some(false), ..GroupChange::default() };
    let view = groups.change_group(GROUP, &resume).await.expect("a change");
    assert_eq!(view.stopped.as_deref(), Some("events_lost"), "losses are to be accepted");
    let accept = GroupChange { accept_loss: true, ..resume };
    let view = groups.change_group(GROUP, &accept).await.expect("a change");
    assert_eq!((view.stopped, view.lost_to), (None, rows[1]));
    log.retains(&rules).await;
    assert_eq!(log.view_of_group().await.stopped, None, "the same is not lost twice");
}

/// That the log's beginning was gone before a group began is no loss.
pub async fn a_group_that_begins_in_a_trimmed_log_lost_nothing(data: &dyn Opener) {
    let log = Captured::open(data).await;
    let rows = log.rows(&[50, 40, 3, 0]).await;
    let rules = RetentionRules { hard_age_ms: Some(24 * HOUR_MS), ..hourly() };
    log.retains(&rules).await;
    log.a_minute_passes().await;
    let view = log.group(&wish(1)).await;
    assert_eq!(view.partitions[0].next.number(), 1);
    log.retains(&rules).await;
    assert_eq!(log.view_of_group().await.stopped, None);
    assert_eq!(log.positions(TABLE).await, rows[3..]);
}
