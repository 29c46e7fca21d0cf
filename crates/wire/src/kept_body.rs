//! A body that keeps something with it for as long as it is being sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

struct KeptBody<T> {
    body: Body,
    _kept: T,
}

/// The body as it is. What is kept with it is dropped when it has been sent, or nobody wants it any more.
pub fn keep_with<T: Send + Unpin + 'static>(body: Body, kept: T) -> Body {
    Body::new(KeptBody { body, _kept: kept })
}

impl<T: Unpin> HttpBody for KeptBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
