//! The Rust client of Tidewire: create streams, append to them, read them and follow them, one by one
//! or many over one connection.
//!
//! ```no_run
//! # async fn example() -> Result<(), tidewire_client::ClientError> {
//! use tidewire_client::{Client, ReadFrom};
//!
//! let client = Client::new("http://127.0.0.1:4437", None)?;
//! client.create("hello", "application/json").await?;
//! client.append_json("hello", &serde_json::json!({ "text": "hi" }), None).await?;
//!
//! let mut follow = client.follow("hello", ReadFrom::Start)?;
//! while let Some(batch) = follow.next().await? {
//!     println!("{} messages up to {}", batch.messages.len(), batch.next_offset);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - [`client`]: one request each; [`answer`]: what comes back; [`events`]: events with their offsets
//! - [`follow`]: a stream as it grows, across lost connections; [`backoff`] paces its attempts
//! - [`live`]: any number of streams over one WebSocket, the same way
//! - [`session`]: who comes and goes, and how far they got; [`nodes`]: the servers of one system
//! - [`sql`]: one's own SQL; [`watch`]: tables whose changes are streams, and how they are captured
//! - [`groups`]: consumer groups; [`consume`]: a member of one at work
//! - [`keys`], [`connections`], [`entities`], [`doctor`]: for administrators
//! - [`message`]: how a body falls into messages; [`sse`]: how a response falls into events
//! - [`error`]: what can go wrong, with what the server said about it
//! - `address`: where a server is, and where its streams are

mod address;
pub mod answer;
pub mod backoff;
pub mod client;
pub mod connections;
pub mod consume;
pub mod doctor;
pub mod entities;
pub mod error;
pub mod events;
pub mod follow;
pub mod groups;
pub mod keys;
pub mod live;
pub mod message;
pub mod nodes;
pub mod session;
pub mod sql;
pub mod sse;
pub mod watch;

pub use answer::{Appended, Description, Page};
pub use backoff::Backoff;
pub use client::{Client, Producer};
pub use connections::{Connection, ConnectionFilter, Connections};
pub use consume::{Outcome, Worker, WorkerError, WorkerOptions, WorkerStats};
pub use doctor::{Check, Checkup};
pub use entities::EntityCount;
pub use error::{ClientError, ConnectFailure, Problem};
pub use events::{Event, EventPage};
pub use follow::{Batch, Follow, ReadFrom};
pub use groups::{ClaimRequest, Claimed, Group, GroupSettings, LogPosition};
pub use keys::{ControlMessage, Key, NewKey};
pub use live::{
    EntityChange, Live, LiveEvent, LiveOptions, QueryBegun, QueryResult, RowChange, RowText, Update,
};
pub use nodes::{Node, Route};
pub use session::{Session, SessionOffset};
pub use sql::{SqlAnswer, SqlColumn};
pub use watch::{Capture, NewWatch, Repair, Watch};
