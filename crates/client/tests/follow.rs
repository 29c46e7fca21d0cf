//! Following a stream, against a server that plays a script: each connection gets the next answer.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tidewire_client::{Client, ClientError, ReadFrom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Plays answers in order and keeps the request lines it got. Stops when dropped.
struct Script {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Script {
    async fn play(answers: Vec<String>) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let task = tokio::spawn(async move {
            for answer in answers {
                let (mut socket, _) = listener.accept().await.expect("a connection");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let byte = socket.read_u8().await.expect("a request's head");
                    request.push(byte);
                }
                let head = String::from_utf8_lossy(&request).into_owned();
                seen.lock().expect("lock").push(head.lines().next().unwrap_or_default().to_owned());
                socket.write_all(answer.as_bytes()).await.expect("an answer");
            }
        });
        Script { url, requests, task }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("lock").clone()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn head_of(content_type: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nstream-next-offset: 0\r\n\
         connection: close\r\n\r\n"
    )
}

fn events(headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{headers}connection: close\r\n\r\n\
         {body}"
    )
}

fn data(data: &str) -> String {
    format!("event: data\ndata: {data}\n\n")
}

fn control(offset: &str, rest: &str) -> String {
    format!("event: control\ndata: {{\"streamNextOffset\":\"{offset}\"{rest}}}\n\n")
}

async fn all(script: &Script, from: ReadFrom) -> Result<Vec<(Vec<Bytes>, String)>, ClientError> {
    let client = Client::new(&script.url, None)?;
    let mut follow = client.follow("doc", from)?;
    let mut batches = Vec::new();
    while let Some(batch) = follow.next().await? {
        batches.push((batch.messages, batch.next_offset));
    }
    Ok(batches)
}

fn batch(messages: &[&str], offset: &str) -> (Vec<Bytes>, String) {
    let messages = messages.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    (messages, offset.to_owned())
}

const CLOSED: &str = ",\"upToDate\":true,\"streamClosed\":true";

#[tokio::test]
async fn a_cut_connection_is_resumed_where_its_last_control_event_stood() {
    let cut = data("[1,2]") + &control("0002", ",\"streamCursor\":\"41\"") + &data("[3]");
    let rest = data("[3]") + &control("0003", CLOSED);
    let script =
        Script::play(vec![head_of("application/json"), events("", &cut), events("", &rest)]).await;
    let batches = all(&script, ReadFrom::Start).await.expect("a closed stream");
    assert_eq!(batches, [batch(&["1", "2"], "0002"), batch(&["3"], "0003")]);
    let expected = [
        "HEAD /v1/stream/doc HTTP/1.1",
        "GET /v1/stream/doc?offset=-1&live=sse HTTP/1.1",
        "GET /v1/stream/doc?offset=0002&live=sse&cursor=41 HTTP/1.1",
    ];
    assert_eq!(script.requests(), expected);
}

#[tokio::test]
async fn a_batch_sent_again_is_given_out_once() {
    let body = data("a") + &control("0001", "") + &data("a") + &control("0001", "");
    let body = body + &data("b") + &control("0002", CLOSED);
    let script = Script::play(vec![head_of("text/plain"), events("", &body)]).await;
    let batches = all(&script, ReadFrom::Now).await.expect("a closed stream");
    assert_eq!(batches, [batch(&["a"], "0001"), batch(&["b"], "0002")]);
}

#[tokio::test]
async fn bytes_arrive_as_base64_where_the_header_says_so() {
    let body = "event: data\ndata: aGVs\ndata: bG8=\n\n".to_owned() + &control("0001", CLOSED);
    let headers = "stream-sse-data-encoding: base64\r\n";
    let script =
        Script::play(vec![head_of("application/octet-stream"), events(headers, &body)]).await;
    let batches = all(&script, ReadFrom::Start).await.expect("a closed stream");
    assert_eq!(batches, [batch(&["hello"], "0001")]);
}

#[tokio::test]
async fn an_unwell_server_is_asked_again() {
    let unwell = "HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let end = events("", &control("0000", CLOSED));
    let answers = vec![unwell.to_owned(), head_of("text/plain"), unwell.to_owned(), end];
    let script = Script::play(answers).await;
    assert_eq!(all(&script, ReadFrom::Start).await.expect("a closed stream"), []);
    assert_eq!(script.requests().len(), 4);
}

#[tokio::test]
async fn a_refusal_ends_it_with_what_the_server_said() {
    let problem = r#"{"code":"offset_gone","detail":"it is gone","hint":"start anew"}"#;
    let gone = format!(
        "HTTP/1.1 410 Gone\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{problem}",
        problem.len()
    );
    let script = Script::play(vec![head_of("text/plain"), gone]).await;
    let error = all(&script, ReadFrom::Offset("0001".into())).await.expect_err("a refusal");
    assert_eq!(error.to_string(), "it is gone (offset_gone); start anew");
}
