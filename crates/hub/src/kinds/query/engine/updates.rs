//! Carries out what the engine puts out: reads, updates for shards, endings.

use std::sync::Arc;

use tokio::time::Instant;

use tidewire_query::{AskId, AskKind, Output, QueryId, Recipients, Subscriber};
use tidewire_store::Position;

use super::news::{Change, News};
use super::reads::Ask;
use super::task::RunningQueryEngine;
use tidewire_access::auth::Who;

fn position(place: tidewire_query::Position) -> Position {
    Position::new(place.0)
}

impl RunningQueryEngine {
    /// Does what the engine has asked for since.
    pub(super) fn tell(&mut self) {
        if self.out.is_empty() {
            return;
        }
        for output in std::mem::take(&mut self.out) {
            match output {
                Output::Ask { ask, query, sql, kind } => self.ask(ask, query, &sql, kind),
                Output::Begin { to, rows, at, reset } => {
                    let Some(kept) = self.kept.get(&query_of(&to)) else { continue };
                    let (compiled, plan) = (Arc::clone(&kept.compiled), kept.plan);
                    let at = at.map(position);
                    self.hub.queries.counters.begun(reset, at.is_none());
                    self.put(News::Begin { to, compiled, plan, rows, at, reset });
                }
                Output::Change { to, delta, at, txid } => {
                    if delta.is_empty() {
                        // Nothing happened, but that what was told stands there.
                        if let Some(at) = at {
                            self.put(News::Settled { to, at: position(at) });
                        }
                        continue;
                    }
                    let at = at.map(position).map(|at| (at, self.hub.offset(at)));
                    self.hub.queries.counters.changed(at.is_none());
                    let Some(kept) = self.kept.get(&query_of(&to)) else { continue };
                    let change = Change::new(&delta, at, txid, (self.created_at_ms, kept.plan));
                    self.put(News::Change { to, change });
                }
                Output::Settled { to, at } => self.put(News::Settled { to, at: position(at) }),
                Output::Plan { query, plan } => {
                    if let Some(kept) = self.kept.get_mut(&query) {
                        kept.plan = plan;
                    }
                }
                Output::End { to, reason } => {
                    let ended = self.named(&to);
                    self.hub.queries.counters.ended(reason.code);
                    self.put(News::End { to, reason });
                    for who in ended {
                        self.leave(who);
                    }
                }
            }
        }
    }

    fn ask(&mut self, id: AskId, query: QueryId, sql: &str, kind: AskKind) {
        // The first ask of a query comes before its follower is seated.
        let known = self.engine.query(query).map(Arc::clone);
        let Some(bound) = known else { return };
        let owner = self.kept.get(&query).map_or(Who::Anyone, |kept| kept.compiled.owner.clone());
        let read = self.hub.live_read(&bound, sql, &owner);
        self.reads.push(Ask { id, query, kind, owner, read, due: Instant::now() });
        self.asks.insert(id, query);
        self.hub.queries.counters.asked(kind);
        // Also those who wait for their first rows: everyone may be among them, when a table is emptied.
        self.be_behind(query, 1);
    }

    /// What a read brought is told when the log has come to a place, and no transaction is open there.
    pub(super) fn answered_at(&mut self, ask: AskId, mark: Position) {
        if mark <= self.whole {
            self.answered(ask);
        } else {
            self.marks.push((mark, ask));
        }
    }

    /// The log has got on.
    pub(super) fn reach_marks(&mut self) {
        let whole = self.whole;
        let reached = self.marks.extract_if(.., |(mark, _)| *mark <= whole);
        for (_, ask) in reached.collect::<Vec<_>>() {
            self.answered(ask);
        }
    }

    /// A read has brought what it can, and that was told.
    pub(super) fn answered(&mut self, ask: AskId) {
        if let Some(query) = self.asks.remove(&ask) {
            self.be_behind(query, -1);
        }
    }

    fn be_behind(&mut self, query: QueryId, by: isize) {
        let Some(kept) = self.kept.get_mut(&query) else { return };
        let was = kept.behind > 0;
        kept.behind = kept.behind.saturating_add_signed(by);
        let behind = kept.behind > 0;
        if was != behind {
            self.put(News::Behind { query, behind });
        }
    }

    /// Everyone whom something concerns.
    fn named(&self, to: &Recipients) -> Vec<Subscriber> {
        match to {
            Recipients::All(query) => {
                let of_query = self.seats.iter().filter(|(_, seated)| seated.query == *query);
                of_query.map(|(who, _)| *who).collect()
            }
            Recipients::Only(_, named) => named.clone(),
        }
    }

    /// Has news told by the shards of those whom it concerns. A shard that is new to a query must know
    /// whether something is yet to be told of it.
    pub(super) fn put(&mut self, news: News) {
        let begun = match &news {
            News::Begin { to, .. } | News::Resumed { to, .. } => Some(query_of(to)),
            _ => None,
        };
        let mut shards = vec![false; self.news.len()];
        let all_of = |query: &QueryId, shards: &mut Vec<bool>| {
            let followers = self.kept.get(query).map(|kept| &kept.followers);
            for (shard, count) in followers.into_iter().flatten().enumerate() {
                shards[shard] |= *count > 0;
            }
        };
        match &news {
            News::Begin { to, .. }
            | News::Resumed { to, .. }
            | News::Change { to, .. }
            | News::Settled { to, .. }
            | News::End { to, .. } => match to {
                Recipients::All(query) => all_of(query, &mut shards),
                Recipients::Only(_, named) => {
                    for seated in named.iter().filter_map(|who| self.seats.get(who)) {
                        shards[seated.shard] = true;
                    }
                }
            },
            News::Behind { query, .. } => all_of(query, &mut shards),
        }
        let news = Arc::new(news);
        for (shard, affected) in shards.into_iter().enumerate() {
            if affected {
                self.news[shard].push(Arc::clone(&news));
            }
        }
        if let Some(query) = begun {
            let behind = self.kept.get(&query).is_some_and(|kept| kept.behind > 0);
            self.put(News::Behind { query, behind });
        }
    }
}

/// The query that something is about.
pub fn query_of(to: &Recipients) -> QueryId {
    match to {
        Recipients::All(query) | Recipients::Only(query, _) => *query,
    }
}
