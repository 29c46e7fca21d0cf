//! The code of a worker: it gets the events of one key and the open transaction.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tidewire_store::groups::GroupEvent;
use tidewire_store::{Epoch, Offset};

use crate::context::Context;
use crate::error::HandlerError;

/// The events of one host and user in a batch, in order.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    pub(crate) host: &'a str,
    pub(crate) user: &'a str,
    pub(crate) events: &'a [Arc<GroupEvent>],
    pub(crate) partition: u32,
    pub(crate) attempt: u32,
    pub(crate) redrive: bool,
    pub(crate) epoch: Epoch,
}

impl<'a> Group<'a> {
    /// The tenant; empty if there is none.
    pub fn host_id(&self) -> &'a str {
        self.host
    }

    /// The user; empty if there is none.
    pub fn user_id(&self) -> &'a str {
        self.user
    }

    /// The events, at least one.
    pub fn events(&self) -> &'a [Arc<GroupEvent>] {
        self.events
    }

    /// Their partition.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// How often they were tried before.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether they are letters that are worked off again.
    pub fn is_redrive(&self) -> bool {
        self.redrive
    }

    /// An event's place in the log, in the form that clients know.
    pub fn offset(&self, event: &GroupEvent) -> Offset {
        event.position.in_epoch(self.epoch)
    }
}

/// What a worker does with events.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Handles the events of one host and user. What is written through the context commits with the group's
    /// progress; an error takes it back.
    async fn handle(
        &self,
        group: &Group<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError>;
}

/// A handler made of a closure that returns `Box::pin(async move { … })`.
pub fn handler_fn<F>(f: F) -> impl Handler
where
    F: for<'a> Fn(&'a Group<'_>, &'a mut Context<'_>) -> BoxFuture<'a, Result<(), HandlerError>>
        + Send
        + Sync
        + 'static,
{
    Closure(f)
}

struct Closure<F>(F);

#[async_trait]
impl<F> Handler for Closure<F>
where
    F: for<'a> Fn(&'a Group<'_>, &'a mut Context<'_>) -> BoxFuture<'a, Result<(), HandlerError>>
        + Send
        + Sync
        + 'static,
{
    async fn handle(
        &self,
        group: &Group<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        (self.0)(group, context).await
    }
}
