//! The examples of PROTOCOL.md, sections 22, 29 and 30, and what they have in common with real messages.

use serde_json::{Map, Value};

const PROTOCOL: &str = include_str!("../../PROTOCOL.md");

/// The examples of one side, `client` or `server`, in order.
pub fn examples(side: &str) -> Vec<Value> {
    examples_of("22. Messages", side)
}

/// Those of another section.
pub fn examples_of(section: &str, side: &str) -> Vec<Value> {
    let section = PROTOCOL.split(&format!("\n## {section}\n")).nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let fence = format!("```json {side}\n");
    let blocks = section.split(&fence).skip(1);
    blocks
        .map(|rest| {
            let text = rest.split("\n```").next().unwrap_or_default();
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
        })
        .collect()
}

/// A request of the protocol's text, and the answer that stands behind it, if one does.
#[derive(Debug)]
pub struct Exchange {
    pub method: String,
    pub path: String,
    pub body: Value,
    /// The status, and the document.
    pub answer: Option<(u16, Value)>,
}

/// The requests of a section, in order.
pub fn exchanges_of(section: &str) -> Vec<Exchange> {
    let section = PROTOCOL.split(&format!("\n## {section}\n")).nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let blocks = section.split("```http\n").skip(1);
    let mut exchanges: Vec<Exchange> = Vec::new();
    for block in blocks.map(|rest| rest.split("\n```").next().unwrap_or_default()) {
        let (head, body) = block.split_once("\n\n").unwrap_or((block, "null"));
        let body: Value =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{body}: {error}"));
        let mut words = head.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if first.starts_with("HTTP/") {
            let request = exchanges.last_mut().expect("a request before its answer");
            request.answer = Some((second.parse().expect("a status"), body));
        } else {
            let (method, path) = (first.to_owned(), second.to_owned());
            exchanges.push(Exchange { method, path, body, answer: None });
        }
    }
    exchanges
}

/// A message with its values replaced by their types: what remains are the members' names. Of an
/// array, one element stands for all, and they must be alike.
pub fn shape(message: &Value) -> Value {
    match message {
        Value::Null => "null".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(elements) => {
            let mut shapes: Vec<Value> = elements.iter().map(shape).collect();
            shapes.dedup();
            assert!(shapes.len() <= 1, "the elements differ: {message}");
            Value::Array(shapes)
        }
        Value::Object(members) => {
            let shapes = members.iter().map(|(name, value)| (name.clone(), shape(value)));
            Value::Object(shapes.collect::<Map<String, Value>>())
        }
    }
}
