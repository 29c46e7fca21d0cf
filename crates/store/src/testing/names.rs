//! For the tests of both stores' migrations: a session of which earlier versions kept two streams under one
//! name.

use crate::offset::Position;
use crate::session::{SessionSubscription, Sessions};

/// It follows three streams, two of them as `q`; another session follows one of these too.
pub const NAMED_TWICE: &str = "
    INSERT INTO tidewire.sessions (session_id, user_id, revision, created_at, expires_at)
        VALUES ('s', 'ann', 3, 0, 9000000000000), ('t', 'ann', 1, 0, 9000000000000);
    INSERT INTO tidewire.session_subscriptions (
        session_id, user_id, stream_id, subscription_epoch, expires_at, query_id
    ) VALUES ('s', 'ann', 'a', 3, 9000000000000, 'q'), ('s', 'ann', 'b', 2, 9000000000000, 'q'),
        ('s', 'ann', 'c', 1, 9000000000000, 'r'), ('t', 'ann', 'b', 1, 9000000000000, 'q');
    INSERT INTO tidewire.session_offsets (
        session_id, user_id, stream_id, subscription_epoch, last_offset, updated_at
    ) VALUES ('s', 'ann', 'a', 3, '', 0), ('s', 'ann', 'b', 2, '', 0), ('s', 'ann', 'c', 1, '', 0),
        ('t', 'ann', 'b', 1, '', 0);
    INSERT INTO tidewire.stream_subscriber_counts (stream_id, count, updated_at)
        VALUES ('a', 1, 0), ('b', 2, 0), ('c', 1, 0);
";

/// What is there of it after the migration.
pub async fn is_named_once(store: &impl Sessions) {
    let named = |stream: &str, query_id: &str, epoch| SessionSubscription {
        stream: stream.to_owned(),
        query_id: query_id.to_owned(),
        epoch,
        pointer: Position::START,
        live_since: None,
    };
    let [s, t] = ["s", "t"].map(|id| store.session(id));
    let s = s.await.expect("a session can be read").expect("a session");
    assert_eq!(s.subscriptions, [named("a", "q", 3), named("c", "r", 1)]);
    assert_eq!(s.revision, 4, "its connections are to hear of it");
    let t = t.await.expect("a session can be read").expect("another session");
    assert_eq!((t.subscriptions, t.revision), (vec![named("b", "q", 1)], 1));
    let mut counts = Vec::new();
    for stream in ["a", "b", "c"] {
        counts.push(store.subscriber_count(stream).await.expect("a count"));
    }
    assert_eq!(counts, [1, 1, 1]);
}
