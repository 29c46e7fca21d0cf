//! A small HTTP server that publishes a key set, or fails to.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// What the server answers.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Keys(String),
    /// With these keys, which are not to be believed.
    Status(StatusCode, String),
    /// To `/elsewhere`, where these keys would be.
    Redirect(String),
    Never,
}

/// A running server; it ends when it is dropped.
pub(super) struct Publisher {
    pub(super) url: String,
    answer: Arc<Mutex<Answer>>,
    requests: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Publisher {
    pub(super) async fn start(answer: Answer) -> Publisher {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = Arc::new(Mutex::new(answer));
        let requests = Arc::new(AtomicUsize::new(0));
        let task = serve(listener, answer.clone(), requests.clone());
        Publisher {
            url: format!("http://{address}/jwks.json"),
            answer,
            requests,
            _task: AbortOnDropHandle::new(tokio::spawn(task)),
        }
    }

    pub(super) fn answer(&self, answer: Answer) {
        *self.answer.lock().expect("not poisoned") = answer;
    }

    /// Requests that have come, to any path.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn serve(listener: TcpListener, answer: Arc<Mutex<Answer>>, requests: Arc<AtomicUsize>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let (answer, requests) = (answer.clone(), requests.clone());
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            requests.fetch_add(1, Ordering::SeqCst);
            let answer = answer.lock().expect("not poisoned").clone();
            let elsewhere = request.uri().path() == "/elsewhere";
            async move { Ok::<_, Infallible>(respond(answer, elsewhere).await) }
        });
        connections.spawn(async move {
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service);
            // A client that goes away is part of some tests.
            let _ = served.await;
        });
    }
}

async fn respond(answer: Answer, elsewhere: bool) -> Response<Full<Bytes>> {
    let (status, text) = match answer {
        Answer::Keys(text) => (StatusCode::OK, text),
        Answer::Status(status, text) => (status, text),
        Answer::Redirect(text) if elsewhere => (StatusCode::OK, text),
        Answer::Redirect(_) => (StatusCode::FOUND, String::new()),
        Answer::Never => std::future::pending().await,
    };
    Response::builder()
        .status(status)
        .header(header::LOCATION, "/elsewhere")
        .body(Full::from(text))
        .expect("a response")
}
