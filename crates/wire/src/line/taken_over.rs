//! The body that hyper gets of a response whose bytes the hub writes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::oneshot;

use super::Line;

/// A body whose bytes are written elsewhere. Hyper is let go of before it ends; if hyper lets go first,
/// nobody is there to write to.
#[derive(Debug)]
pub struct TakenOverBody {
    line: Arc<Line>,
    /// Closed by whoever was to write the bytes and will not.
    writer: oneshot::Receiver<()>,
}

impl TakenOverBody {
    pub fn new(line: Arc<Line>, writer: oneshot::Receiver<()>) -> TakenOverBody {
        TakenOverBody { line, writer }
    }
}

impl Stream for TakenOverBody {
    type Item = Result<Bytes, &'static str>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.line.asked();
        // It never ends: there is nothing to be told but that nobody writes it.
        Pin::new(&mut self.writer).poll(cx).map(|_| Some(Err("the response could not begin")))
    }
}

impl Drop for TakenOverBody {
    fn drop(&mut self) {
        self.line.give_back();
    }
}
