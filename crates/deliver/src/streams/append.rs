//! POST: append to a stream, close it, or both.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;

use tidewire_store::{Answer, Append, Command, ProducerStamp};

use super::headers;
use super::refusal;
use crate::access::auth::Identity;
use crate::access::problem::Problem;
use crate::access::stream_name::StreamName;
use crate::body;
use crate::hub::encode;
use crate::node::Node;

/// Bytes of a W3C `traceparent`, which are kept with the events.
const TRACEPARENT_BYTES_MAX: usize = 128;

pub(super) async fn append(
    node: &Node,
    name: StreamName,
    request: Request,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    name.writable()?;
    let (close, append) = {
        let given = request.headers();
        let close = headers::closes(given);
        let append = Append {
            stream: name.into_string(),
            content_type: headers::text(given, header::CONTENT_TYPE.as_str())?
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(ToOwned::to_owned),
            messages: Vec::new(),
            close,
            seq: headers::seq(given)?,
            producer: headers::producer(given)?,
            actor: identity.actor(),
            trace_context: headers::text(given, "traceparent")?
                .filter(|text| text.len() <= TRACEPARENT_BYTES_MAX)
                .map(ToOwned::to_owned),
        };
        (close, append)
    };
    let bytes = body::read(request, &node.access).await?;
    let append = if bytes.is_empty() {
        if !close {
            return Err(Problem::bad_request(
                "empty_append",
                "the request has no body",
                "send what to append; to close the stream send Stream-Closed: true",
            ));
        }
        append
    } else {
        let content_type = append.content_type.as_deref().ok_or_else(missing_content_type)?;
        let messages = encode::messages(content_type, bytes.clone(), &node.options.limits)?;
        if messages.is_empty() {
            return Err(Problem::bad_request(
                "empty_append",
                "the JSON array has no elements",
                "an array is appended element by element; send at least one",
            ));
        }
        Append { messages, ..append }
    };
    let producer = append.producer.clone();
    let has_data = !append.messages.is_empty();
    let answer = node.store.submit(Command::Append(append)).await?;
    respond(node, answer, producer.as_ref(), has_data)
}

fn respond(
    node: &Node,
    answer: Answer,
    producer: Option<&ProducerStamp>,
    has_data: bool,
) -> Result<Response<Body>, Problem> {
    let (status, tail, seq, closed) = match answer {
        // A producer's new data is 200, so that it can tell new from repeated.
        Answer::Appended { tail, closed } => {
            let new_data = producer.is_some() && has_data;
            let status = if new_data { StatusCode::OK } else { StatusCode::NO_CONTENT };
            (status, tail, producer.map(|stamp| stamp.seq), closed)
        }
        Answer::Duplicate { tail, seq, closed } => {
            (StatusCode::NO_CONTENT, tail, Some(seq), closed)
        }
        Answer::Refused(refusal) => return Err(refusal::problem(node, refusal)),
        Answer::Created { .. } | Answer::Done => return Ok(StatusCode::NO_CONTENT.into_response()),
    };
    let mut response = status.into_response();
    let headers = response.headers_mut();
    encode::insert(headers, headers::NEXT_OFFSET, &node.hub.offset(tail).to_string());
    if let Some(stamp) = producer {
        encode::insert(headers, headers::PRODUCER_EPOCH, &stamp.epoch.to_string());
    }
    if let Some(seq) = seq {
        encode::insert(headers, headers::PRODUCER_SEQ, &seq.to_string());
    }
    if closed {
        encode::insert(headers, headers::CLOSED, "true");
    }
    Ok(response)
}

fn missing_content_type() -> Problem {
    Problem::bad_request(
        "missing_content_type",
        "an append needs a Content-Type",
        "send the content type the stream was created with",
    )
}
