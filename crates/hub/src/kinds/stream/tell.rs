//! What followers of a stream, or of a table's rows, are told of what happened to it.

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
    pub(crate) fn see_stream(&mut self, glimpse: &StreamSlice, alone: bool) {
        let Some(audience) = self.audiences.get_mut(glimpse.topic.stream()) else { return };
        if !Arc::ptr_eq(audience.attendance.topic(), &glimpse.topic) {
            return;
        }
        if glimpse.ending == Some(Ending::Closed) {
            audience.closed = true;
        }
        if let Some(unseen) = glimpse.unseen {
            self.read_again(glimpse.topic.stream(), unseen);
        }
        let StreamSlice { chunk, notice, ending, .. } = glimpse;
        if chunk.is_none() && notice.is_none() && ending.is_none() {
            return;
        }
        let Some(audience) = self.audiences.get(glimpse.topic.stream()) else { return };
        let round = |(circle, members): (&EncodingGroup, &Arc<Vec<Follower>>)| {
            let news = News::Stream(Box::new(StreamNews::new(glimpse, circle)));
            Round::new(news, Arc::clone(members))
        };
        let rounds = audience.groups().map(round).collect();
        self.fan_out(rounds, alone);
    }
}

impl StreamNews {
    /// Tells one follower.
    pub(crate) fn tell(&mut self, shard: &mut Shard, member: Follower, serving: &mut Serving) {
        let to_readers = self.circle.is_of_readers();
        if self.in_doubt {
            return shard.look_again(member, self);
        }
        if to_readers {
            shard.deliver_to_reader(member.key, self, serving);
            if let Some(notice) = &self.notice {
                shard.mention(member.key, notice);
            }
            return;
        }
        if !self.chunks.is_empty() {
            shard.deliver(member, self, serving);
        }
        if let Some(notice) = &self.notice {
            shard.deliver_notice(member, notice);
        }
        if let Some(ending) = self.ending {
            shard.deliver_ending(member, ending);
        }
    }
}

impl Shard {
    /// Gives a round's events to one follower, unless it has them.
    fn deliver(&mut self, member: Follower, news: &mut StreamNews, serving: &mut Serving) {
        let Some(connection) = self.connections.get_mut(member.key.index) else { return };
        if connection.serial != member.key.serial || connection.closing {
            return;
        }
        let (dialect, idle) = (connection.dialect(), connection.is_idle());
        let Some(subscription) = connection.subscription(member.slot) else { return };
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
            connection.unsorted.extend(Delivery::after(after, member.slot, &news.chunks));
            return self.touch(member.key.index);
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
        let cargo = OutboxItem::live(member.slot, (after, last), events, news.created_at_ms());
        self.hand_over(member, bytes, cargo, serving);
    }

    /// Ends what follows a stream that has ended, after what came before.
    fn deliver_ending(&mut self, member: Follower, ending: Ending) {
        if self.connection(member.key).is_none() {
            return;
        }
        self.sort(member.key.index);
        let feed = self.connection(member.key).and_then(|c| c.feed(member.slot));
        match (ending, feed.map(|feed| feed.state)) {
            (Ending::Gone, _) => self.end(member.key, member.slot, "stream_deleted"),
            (Ending::Closed, Some(State::Live)) => {
                self.end(member.key, member.slot, "stream_closed");
            }
            // Who reads the store learns of it there, after the rest.
            (Ending::Closed, _) => {}
        }
    }

    /// Sends one who sees a part of a table back to the store, because the table is not what it was when
    /// it was last looked at.
    fn look_again(&mut self, member: Follower, news: &StreamNews) {
        if let Some(notice) = news.notice.as_ref().filter(|_| !news.circle.is_of_readers()) {
            self.deliver_notice(member, notice);
        }
        match news.ending {
            Some(Ending::Gone) if news.circle.is_of_readers() => {
                self.end_reader(member.key, &Frame::default());
            }
            Some(Ending::Gone) => self.end(member.key, member.slot, "stream_deleted"),
            _ if news.circle.is_of_readers() => self.send_to_store(member.key),
            _ => self.replay_if_live(member),
        }
    }

    /// Reads the store for one who got what happens until now.
    pub(crate) fn replay_if_live(&mut self, member: Follower) {
        let feed = self.connection(member.key).and_then(|c| c.feed(member.slot));
        if feed.is_some_and(|feed| feed.is_live()) {
            self.begin_replay(member.key, vec![member.slot]);
        }
    }
}
