//! Messages as PostgreSQL 15 sent them, and bytes that nobody sent.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn unhex(hex: &str) -> Bytes {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn text(value: &'static str) -> Cell {
    Cell::Text(Bytes::from_static(value.as_bytes()))
}

/// One message of each kind: two tables, one with REPLICA IDENTITY FULL, one with its key alone and
/// a column that lies out of line.
const SENT: [&str; 14] = [
    "420000000535e79af000030353fdc038a200036329",
    "59000952677075626c6963006d6f6f6400",
    "520009526b7075626c69630074006600040169640000000017ffffffff016e616d650000000019ffffffff016d00\
     00095267ffffffff016269670000000019ffffffff",
    "490009526b4e000474000000013174000000016174000000026f6b7400000002787a",
    "550009526b4f000474000000013174000000016174000000026f6b7400000002787a4e00047400000001316e7400\
     0000026f6b75",
    "440009526b4f00047400000001316e74000000026f6b7400000002787a",
    "52000952727075626c6963006b006400020169640000000017ffffffff006269670000000019ffffffff",
    "55000952724b00027400000001316e4e000274000000013275",
    "55000952724e000274000000013275",
    "44000952724b00027400000001326e",
    "4d010000000535e784207477000000000568656c6c6f",
    "5400000002000009526b00095272",
    "4f0000000535e784206f726967696e00",
    "43000000000535e79af00000000535e79d9000030353fdc038a2",
];

#[test]
fn what_the_server_sends_is_read() {
    let messages: Vec<Message> =
        SENT.iter().map(|hex| decode(unhex(hex)).expect("a message")).collect();
    let (t, k) = (0x0009_526b, 0x0009_5272);
    assert_eq!(
        messages[0],
        Message::Begin {
            commit_lsn: 0x5_35e7_9af0,
            committed_at: 0x0003_0353_fdc0_38a2,
            xid: 0x0003_6329,
        }
    );
    assert_eq!(messages[1], Message::Type);
    let Message::Relation(relation) = &messages[2] else { panic!("{:?}", messages[2]) };
    assert_eq!((relation.id, relation.schema.as_str(), relation.name.as_str()), (t, "public", "t"));
    assert_eq!(relation.replica_identity, b'f');
    let names: Vec<&str> = relation.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["id", "name", "m", "big"]);
    assert_eq!(relation.columns[0].type_id, 23);
    let first = vec![text("1"), text("a"), text("ok"), text("xz")];
    assert_eq!(messages[3], Message::Insert { relation: t, new: first.clone() });
    let new = vec![text("1"), Cell::Null, text("ok"), Cell::Unchanged];
    assert_eq!(messages[4], Message::Update { relation: t, old: Old::Whole(first), new });
    let last = vec![text("1"), Cell::Null, text("ok"), text("xz")];
    assert_eq!(messages[5], Message::Delete { relation: t, old: Old::Whole(last) });
    let Message::Relation(relation) = &messages[6] else { panic!("{:?}", messages[6]) };
    assert_eq!((relation.id, relation.replica_identity), (k, b'd'));
    let keys: Vec<bool> = relation.columns.iter().map(|column| column.key).collect();
    assert_eq!(keys, [true, false]);
    let new = vec![text("2"), Cell::Unchanged];
    let old = Old::Key(vec![text("1"), Cell::Null]);
    assert_eq!(messages[7], Message::Update { relation: k, old, new: new.clone() });
    assert_eq!(messages[8], Message::Update { relation: k, old: Old::Nothing, new });
    let old = Old::Key(vec![text("2"), Cell::Null]);
    assert_eq!(messages[9], Message::Delete { relation: k, old });
    let content = Bytes::from_static(b"hello");
    let logical = Message::Logical { transactional: true, prefix: "tw".to_owned(), content };
    assert_eq!(messages[10], logical);
    assert_eq!(messages[11], Message::Truncate { relations: vec![t, k] });
    assert_eq!(messages[12], Message::Origin);
    assert_eq!(
        messages[13],
        Message::Commit {
            commit_lsn: 0x5_35e7_9af0,
            end_lsn: 0x5_35e7_9d90,
            committed_at: 0x0003_0353_fdc0_38a2,
        }
    );
}

#[test]
fn a_message_that_is_cut_short_is_an_error() {
    for hex in SENT {
        let whole = unhex(hex);
        for length in 0..whole.len() {
            let cut = decode(whole.slice(..length));
            assert!(matches!(cut, Err(DecodeError::Short(_))), "{hex} cut to {length}: {cut:?}");
        }
    }
}

#[test]
fn a_message_with_something_after_it_is_an_error() {
    for hex in SENT {
        let mut longer = unhex(hex).to_vec();
        longer.push(0);
        assert_eq!(decode(longer.into()), Err(DecodeError::TooLong(1)), "{hex}");
    }
}

#[test]
fn a_count_that_nothing_follows_takes_no_memory() {
    let truncate_of_four_billion = unhex("54ffffffff00");
    assert_eq!(decode(truncate_of_four_billion), Err(DecodeError::Short("relation id")));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(bytes.into());
    }

    #[test]
    fn no_change_of_a_message_makes_it_panic(
        which in 0..SENT.len(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = unhex(SENT[which]).to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = decode(bytes.into());
    }
}
