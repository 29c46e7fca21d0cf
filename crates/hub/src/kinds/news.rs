//! News: what happened, on its way to followers. An arm for each kind.

use std::sync::Arc;

use tidewire_query::QueryId;

use super::entities::ChangesOfEntities;
use super::query::QueryNews;
use super::stream::news::StreamNews;
use crate::Hub;
use crate::audience::{EncodingGroup, Follower};
use crate::round::{Round, Serving};
use crate::shard::Shard;

/// Something that happened, for followers who are told the same of it.
#[derive(Debug)]
pub enum News {
    Stream(Box<StreamNews>),
    Entities(Box<ChangesOfEntities>),
    Query(Box<QueryNews>),
    #[cfg(debug_assertions)]
    Clock(super::clock::Tick),
}

/// What is told in the order in which it happened. What happens in different lanes may overtake.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lane {
    /// By the address of its topic, which is kept for as long as a round of it waits.
    Stream(usize),
    Entities(Arc<str>),
    Query(QueryId),
    #[cfg(debug_assertions)]
    Clock,
}

/// Followers in a lane who are told the same, so that what comes for them can be told together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cohort {
    EncodingGroup(EncodingGroup),
    /// Those who have this name for what the lane is of.
    Named(Arc<str>),
    WholeLane,
}

impl News {
    pub(crate) fn lane(&self) -> Lane {
        match self {
            News::Stream(news) => Lane::Stream(Arc::as_ptr(&news.topic).addr()),
            News::Entities(news) => Lane::Entities(Arc::clone(&news.code)),
            News::Query(news) => Lane::Query(news.query),
            #[cfg(debug_assertions)]
            News::Clock(_) => Lane::Clock,
        }
    }

    /// Whom it is for, if what comes for them later can be told together with it.
    pub(crate) fn cohort(&self) -> Option<Cohort> {
        match self {
            News::Stream(news) => Some(Cohort::EncodingGroup(news.encoding_group.clone())),
            News::Entities(_) => Some(Cohort::WholeLane),
            News::Query(news) => news.query_id.clone().map(Cohort::Named),
            #[cfg(debug_assertions)]
            News::Clock(_) => None,
        }
    }

    /// Takes along what comes later for the same followers; or gives it back.
    pub fn absorb(&mut self, later: News) -> Result<(), News> {
        match (self, later) {
            (News::Stream(news), News::Stream(later)) => news.absorb(later).map_err(News::Stream),
            (News::Entities(news), News::Entities(later)) => {
                news.absorb(*later);
                Ok(())
            }
            (News::Query(news), News::Query(later)) => news.absorb(later).map_err(News::Query),
            (_, later) => Err(later),
        }
    }

    /// How many it concerns besides those whom its round knows.
    pub fn more(&self) -> usize {
        if let News::Entities(news) = self { news.size() } else { 0 }
    }

    /// Some of them, who are not counted any more.
    pub(crate) fn next_members(&mut self) -> Option<Arc<Vec<Follower>>> {
        if let News::Entities(news) = self { news.next_members() } else { None }
    }

    /// Whether rounds of it that wait are bounded by nothing but their number.
    pub(crate) fn piles_up(&self) -> bool {
        matches!(self, News::Query(_))
    }

    /// Whether it has yet to be found out what its followers see of it.
    pub(crate) fn is_unseen(&self) -> bool {
        if let News::Stream(news) = self { news.is_unseen() } else { false }
    }

    /// Whether it is for responses that follow one stream, and nothing else.
    pub(crate) fn is_for_readers(&self) -> bool {
        if let News::Stream(news) = self { news.encoding_group.is_of_readers() } else { false }
    }

    /// Finds out what its followers see of it, before some of them are told.
    pub fn look(&mut self, hub: &Hub) {
        if let News::Stream(news) = self {
            news.in_doubt = !news.look(&hub.tables, hub.store.epoch());
        }
    }

    /// Tells one follower, if it is still there.
    pub fn tell(&mut self, shard: &mut Shard, follower: Follower, serving: &mut Serving) {
        match self {
            News::Stream(news) => news.tell(shard, follower, serving),
            News::Entities(news) => news.tell(shard, follower, serving),
            News::Query(news) => news.tell(shard, follower, serving),
            #[cfg(debug_assertions)]
            News::Clock(tick) => tick.tell(shard, follower, serving),
        }
    }
}

/// Finds out for several rounds at once what their followers see: events that are the same are read once.
pub fn look_together<'r>(rounds: impl Iterator<Item = &'r mut Round>, hub: &Hub) {
    let streams = rounds.filter_map(|round| match &mut round.news {
        News::Stream(news) => Some(&mut **news),
        _ => None,
    });
    StreamNews::look_together(streams, &hub.tables, hub.store.epoch());
}
