//! Sends a stream's events to its followers, and to followers of a table's rows.

use std::sync::Arc;

use super::news::StreamNews;
use crate::audience::{EncodingGroup, Follower};
use crate::kinds::News;
use crate::log_feed::State;
use crate::log_feed::unsorted::Delivery;
use crate::outbox::OutboxItem;
use crate::reader_frame::Frame;
use crate::round::{Round, Serving};
use crate::shard::Shard;
use crate::tail::{Ending, StreamSlice};

impl Shard {
    /// Hands out what happened to a stream to those who follow it here.
    pub(crate) fn see_stream(&mut self, stream_slice: &StreamSlice, alone: bool) {
        let Some(audience) = self.audiences.get_mut(stream_slice.topic.stream()) else { return };
        if !Arc::ptr_eq(audience.topic_guard.topic(), &stream_slice.topic) {
            return;
        }
        if stream_slice.ending == Some(Ending::Closed) {
            audience.closed = true;
        }
        if let Some(unseen) = stream_slice.unseen {
            self.read_again(stream_slice.topic.stream(), unseen);
        }
        let StreamSlice { chunk, notice, ending, .. } = stream_slice;
        if chunk.is_none() && notice.is_none() && ending.is_none() {
            return;
        }
        let Some(audience) = self.audiences.get(stream_slice.topic.stream()) else { return };
        let round = |(encoding_group, followers): (&EncodingGroup, &Arc<Vec<Follower>>)| {
            let news = News::Stream(Box::new(StreamNews::new(stream_slice, encoding_group)));
            Round::new(news, Arc::clone(followers))
        };
        let rounds = audience.groups().map(round).collect();
        self.fan_out(rounds, alone);
    }
}

impl StreamNews {
    /// Tells one follower.
    pub(crate) fn tell(&mut self, shard: &mut Shard, follower: Follower, serving: &mut Serving) {
        let to_readers = self.encoding_group.is_of_readers();
        if self.in_doubt {
            return shard.look_again(follower, self);
        }
        if to_readers {
            shard.deliver_to_reader(follower.key, self, serving);
            if let Some(notice) = &self.notice {
                shard.mention(follower.key, notice);
            }
            return;
        }
        if !self.chunks.is_empty() {
            shard.deliver(follower, self, serving);
        }
        if let Some(notice) = &self.notice {
            shard.deliver_notice(follower, notice);
        }
        if let Some(ending) = self.ending {
            shard.deliver_ending(follower, ending);
        }
    }
}

impl Shard {
    /// Gives a round's events to one follower, unless it has them.
    fn deliver(&mut self, follower: Follower, news: &mut StreamNews, serving: &mut Serving) {
        let Some(connection) = self.connections.get_mut(follower.key.index) else { return };
        if connection.serial != follower.key.serial || connection.closing {
            return;
        }
        let (dialect, idle) = (connection.dialect(), connection.is_idle());
        let Some(subscription) = connection.subscription(follower.slot) else { return };
        let (after, last) = (subscription.sent, news.last());
        let Some(feed) = subscription.kind.feed() else { return };
        if !feed.is_live() || after >= last {
            return;
        }
        let Some(envelope) = &feed.envelope else { return };
        if news.event_count() == 0 {
            // There was nothing that it sees.
            subscription.sent = last;
            return;
        }
        let whole = after < news.first();
        if dialect.has_one_cursor() && !(whole && idle && serving.alone) {
            subscription.sent = last;
            connection.unsorted.extend(Delivery::after(after, follower.slot, &news.chunks));
            return self.touch(follower.key.index);
        }
        let (bytes, events) = if whole {
            (news.bytes(dialect, envelope, &mut self.deflater), news.event_count())
        } else {
            let rest = news.events_after(after);
            (envelope.encode(dialect, &rest, &mut self.deflater), rest.len())
        };
        subscription.sent = last;
        if events == 0 {
            return;
        }
        if dialect.has_one_cursor() {
            connection.furthest = connection.furthest.max(last);
        }
        let item = OutboxItem::live(follower.slot, (after, last), events, news.created_at_ms());
        self.hand_over(follower, bytes, item, serving);
    }

    /// Ends what follows a stream that has ended, after what came before.
    fn deliver_ending(&mut self, follower: Follower, ending: Ending) {
        if self.connection(follower.key).is_none() {
            return;
        }
        self.sort(follower.key.index);
        let feed = self.connection(follower.key).and_then(|c| c.feed(follower.slot));
        match (ending, feed.map(|feed| feed.state)) {
            (Ending::Gone, _) => self.end(follower.key, follower.slot, "stream_deleted"),
            (Ending::Closed, Some(State::Live)) => {
                self.end(follower.key, follower.slot, "stream_closed");
            }
            // Who reads the store learns of it there, after the rest.
            (Ending::Closed, _) => {}
        }
    }

    /// Sends one who sees a part of a table back to the store, because the table is not what it was when
    /// it was last looked at.
    fn look_again(&mut self, follower: Follower, news: &StreamNews) {
        if let Some(notice) = news.notice.as_ref().filter(|_| !news.encoding_group.is_of_readers())
        {
            self.deliver_notice(follower, notice);
        }
        match news.ending {
            Some(Ending::Gone) if news.encoding_group.is_of_readers() => {
                self.end_reader(follower.key, &Frame::default());
            }
            Some(Ending::Gone) => self.end(follower.key, follower.slot, "stream_deleted"),
            _ if news.encoding_group.is_of_readers() => self.send_to_store(follower.key),
            _ => self.replay_if_live(follower),
        }
    }

    /// Reads the store for one who got what happens until now.
    pub(crate) fn replay_if_live(&mut self, follower: Follower) {
        let feed = self.connection(follower.key).and_then(|c| c.feed(follower.slot));
        if feed.is_some_and(|feed| feed.is_live()) {
            self.begin_replay(follower.key, vec![follower.slot]);
        }
    }
}
