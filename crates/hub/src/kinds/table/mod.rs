//! Tables: a subscription to a table's rows is a [`Feed`](crate::log_feed::Feed) of the stream behind
//! the table, as one to that stream is. What is a table's own is here: that its columns may change.

use crate::audience::Follower;
use crate::messages::{SchemaChanged, ServerMessage as _};
use crate::shard::Shard;
use crate::tail::SchemaChange;

impl Shard {
    /// Tells one follower that the columns of the stream's table changed, after the rows before that.
    /// One that reads the store is told at once: the message says where in the log it belongs.
    pub(crate) fn deliver_notice(&mut self, follower: Follower, notice: &SchemaChange) {
        if self.connection(follower.key).is_none() {
            return;
        }
        self.sort(follower.key.index);
        let offset = self.hub.offset(notice.position);
        let subscription =
            self.connection(follower.key).and_then(|c| c.subscription(follower.slot));
        let Some(subscription) = subscription.filter(|s| s.announced) else { return };
        let Some(feed) = subscription.kind.feed() else { return };
        let (query_id, stream) = (&subscription.query_id, &feed.stream);
        let view = feed.mode.view.as_ref();
        let what = notice.told_to(view);
        let message = SchemaChanged { query_id, stream_id: stream, what, offset }.text();
        let sees_part = view.is_some();
        self.say(follower.key, &message);
        if sees_part {
            // Whether it can still be seen is found out now, and not when the next row comes.
            self.replay_if_live(follower);
        }
    }
}
