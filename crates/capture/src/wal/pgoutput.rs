//! The messages of `pgoutput`, protocol version 1: what a logical slot sends of each transaction.
//!
//! Pure: bytes in, messages out. Values stay slices of the bytes they came in. Bytes that are not a
//! message are an error, never a panic: the stream comes from a server, but over a network.

use bytes::{Buf, Bytes};

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// A transaction follows, whole: it is sent once it has committed.
    Begin {
        /// Where its commit record lies.
        commit_lsn: u64,
        /// When it committed, in microseconds since 2000.
        committed_at: i64,
        /// Its number, without the epoch.
        xid: u32,
    },
    /// The transaction is complete.
    Commit {
        /// Where its commit record lies.
        commit_lsn: u64,
        /// Where the record after it lies: reading on from here does not repeat it.
        end_lsn: u64,
        /// When it committed, in microseconds since 2000.
        committed_at: i64,
    },
    /// What a table looks like, before its first change and after it was altered.
    Relation(Relation),
    /// A type that is not built in. Said for the names only.
    Type,
    /// Where a transaction that was replicated to here first happened.
    Origin,
    /// A row is new.
    Insert {
        /// Its table.
        relation: u32,
        /// The row.
        new: Vec<Cell>,
    },
    /// A row was changed.
    Update {
        /// Its table.
        relation: u32,
        /// What was there before, as much as the replica identity says.
        old: Old,
        /// The row.
        new: Vec<Cell>,
    },
    /// A row is gone.
    Delete {
        /// Its table.
        relation: u32,
        /// What was there before, as much as the replica identity says.
        old: Old,
    },
    /// All rows of some tables are gone.
    Truncate {
        /// The tables.
        relations: Vec<u32>,
    },
    /// A message that a session wrote into the write-ahead log.
    Logical {
        /// Whether it is part of the transaction, and not there if that was rolled back.
        transactional: bool,
        /// By whom it is, for whom.
        prefix: String,
        /// What it says.
        content: Bytes,
    },
}

/// What a table looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) id: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// `f` is FULL: the old row is sent whole.
    pub(crate) replica_identity: u8,
    pub(crate) columns: Vec<Column>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Its type's oid.
    pub(crate) type_id: u32,
    /// Whether it is part of the replica identity.
    pub(crate) key: bool,
}

/// What is told of the row before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Old {
    /// Nothing: the key is as it was.
    Nothing,
    /// The columns of the replica identity; the others are null.
    Key(Vec<Cell>),
    /// Every column.
    Whole(Vec<Cell>),
}

impl Old {
    /// What is told, column by column.
    pub(crate) fn cells(&self) -> &[Cell] {
        match self {
            Old::Nothing => &[],
            Old::Key(cells) | Old::Whole(cells) => cells,
        }
    }
}

/// A column's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    /// It lies out of line, was not changed, and is therefore not sent.
    Unchanged,
    /// As the type's output function writes it.
    Text(Bytes),
}

/// Bytes that are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("the message ends before its {0}")]
    Short(&'static str),
    #[error("the {0} is not UTF-8")]
    NotText(&'static str),
    #[error("{byte:#04x} is no kind of {what}")]
    UnknownKind { what: &'static str, byte: u8 },
    #[error("{0} bytes follow the message")]
    TooLong(usize),
}

/// Reads one message.
pub(crate) fn decode(bytes: Bytes) -> Result<Message, DecodeError> {
    let mut input = Input(bytes);
    let message = match input.u8("kind")? {
        b'B' => Message::Begin {
            commit_lsn: input.u64("commit LSN")?,
            committed_at: input.i64("commit time")?,
            xid: input.u32("xid")?,
        },
        b'C' => {
            input.u8("flags")?;
            Message::Commit {
                commit_lsn: input.u64("commit LSN")?,
                end_lsn: input.u64("end LSN")?,
                committed_at: input.i64("commit time")?,
            }
        }
        b'R' => Message::Relation(input.relation()?),
        b'Y' => {
            input.u32("type id")?;
            input.string("type's schema")?;
            input.string("type's name")?;
            Message::Type
        }
        b'O' => {
            input.u64("origin's LSN")?;
            input.string("origin")?;
            Message::Origin
        }
        b'I' => {
            let relation = input.u32("relation id")?;
            input.kind("new row", b"N")?;
            Message::Insert { relation, new: input.tuple()? }
        }
        b'U' => {
            let relation = input.u32("relation id")?;
            let old = match input.kind("row", b"NKO")? {
                b'N' => Old::Nothing,
                kind => {
                    let old = input.old(kind)?;
                    input.kind("new row", b"N")?;
                    old
                }
            };
            Message::Update { relation, old, new: input.tuple()? }
        }
        b'D' => {
            let relation = input.u32("relation id")?;
            let kind = input.kind("old row", b"KO")?;
            Message::Delete { relation, old: input.old(kind)? }
        }
        b'T' => {
            let count = input.u32("number of relations")?;
            input.u8("options")?;
            let mut relations = Vec::new();
            for _ in 0..count {
                relations.push(input.u32("relation id")?);
            }
            Message::Truncate { relations }
        }
        b'M' => {
            let flags = input.u8("flags")?;
            input.u64("message's LSN")?;
            let prefix = input.string("prefix")?;
            let length = input.u32("length")?;
            let content = input.bytes(length, "content")?;
            Message::Logical { transactional: flags & 1 == 1, prefix, content }
        }
        byte => return Err(DecodeError::UnknownKind { what: "message", byte }),
    };
    match input.0.len() {
        0 => Ok(message),
        rest => Err(DecodeError::TooLong(rest)),
    }
}

/// What is left to read.
struct Input(Bytes);

impl Input {
    fn enough(&self, bytes: usize, what: &'static str) -> Result<(), DecodeError> {
        if self.0.len() >= bytes { Ok(()) } else { Err(DecodeError::Short(what)) }
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.enough(1, what)?;
        Ok(self.0.get_u8())
    }

    fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        self.enough(2, what)?;
        Ok(self.0.get_u16())
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.enough(4, what)?;
        Ok(self.0.get_u32())
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.enough(8, what)?;
        Ok(self.0.get_u64())
    }

    fn i64(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.enough(8, what)?;
        Ok(self.0.get_i64())
    }

    fn kind(&mut self, what: &'static str, kinds: &[u8]) -> Result<u8, DecodeError> {
        let byte = self.u8(what)?;
        if kinds.contains(&byte) { Ok(byte) } else { Err(DecodeError::UnknownKind { what, byte }) }
    }

    fn bytes(&mut self, length: u32, what: &'static str) -> Result<Bytes, DecodeError> {
        let length = usize::try_from(length).map_err(|_| DecodeError::Short(what))?;
        self.enough(length, what)?;
        Ok(self.0.split_to(length))
    }

    /// A string that ends with a zero.
    fn string(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(DecodeError::Short(what))?;
        let bytes = self.0.split_to(end);
        self.0.advance(1);
        let text = std::str::from_utf8(&bytes).map_err(|_| DecodeError::NotText(what))?;
        Ok(text.to_owned())
    }

    fn relation(&mut self) -> Result<Relation, DecodeError> {
        let id = self.u32("relation id")?;
        let schema = self.string("schema")?;
        let name = self.string("table")?;
        let replica_identity = self.u8("replica identity")?;
        let count = self.u16("number of columns")?;
        let mut columns = Vec::new();
        for _ in 0..count {
            let flags = self.u8("column's flags")?;
            let name = self.string("column")?;
            let type_id = self.u32("column's type")?;
            self.u32("column's modifier")?;
            columns.push(Column { name, type_id, key: flags & 1 == 1 });
        }
        Ok(Relation { id, schema, name, replica_identity, columns })
    }

    fn old(&mut self, kind: u8) -> Result<Old, DecodeError> {
        let tuple = self.tuple()?;
        Ok(if kind == b'K' { Old::Key(tuple) } else { Old::Whole(tuple) })
    }

    fn tuple(&mut self) -> Result<Vec<Cell>, DecodeError> {
        let count = self.u16("number of columns")?;
        let mut cells = Vec::new();
        for _ in 0..count {
            cells.push(match self.kind("value", b"nut")? {
                b'n' => Cell::Null,
                b'u' => Cell::Unchanged,
                _ => {
                    let length = self.u32("length")?;
                    Cell::Text(self.bytes(length, "value")?)
                }
            });
        }
        Ok(cells)
    }
}

#[cfg(test)]
mod tests;
