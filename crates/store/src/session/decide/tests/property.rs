//! Random changes, however they are batched: a commit of many does what as many commits would, and
//! the tables stay consistent.

use proptest::prelude::*;

use super::*;

/// The tables, as a store would hold them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Tables {
    sessions: BTreeMap<String, SessionRow>,
    subscriptions: BTreeMap<(String, String), FollowedRow>,
    pointers: BTreeMap<(String, String), FollowedRow>,
    counts: BTreeMap<String, i64>,
}

const NODE: &str = "n";

impl Tables {
    fn load(&self, changes: &[SessionChange], now_ms: i64) -> LoadedSessions {
        let required = RequiredSessions::by(changes);
        let mut loaded = LoadedSessions::new(now_ms);
        for (id, counted) in required.sessions {
            if let Some(row) = self.sessions.get(id) {
                let count = self.subscriptions.keys().filter(|(session, _)| session == id).count();
                let kept = row.node.as_deref() == Some(NODE);
                loaded.put(id.to_owned(), row.clone(), if counted { count } else { 0 }, kept);
            }
        }
        for (session, stream, name) in required.followed {
            let is_wanted = |row: &&FollowedRow| {
                let SessionSubscription { stream: of, query_id, .. } = &row.followed.subscription;
                row.session == session && (of == stream || Some(query_id.as_str()) == name)
            };
            for row in self.subscriptions.values().filter(is_wanted) {
                let key = (session.to_owned(), row.followed.subscription.stream.clone());
                let (mut followed, pointer) = (row.followed.clone(), &self.pointers[&key]);
                followed.subscription.pointer = pointer.followed.subscription.pointer;
                followed.updated_at_ms = pointer.followed.updated_at_ms;
                loaded.put_followed(session, followed);
            }
        }
        loaded
    }

    fn save(&mut self, plan: SessionPlan) {
        self.sessions.extend(plan.sessions);
        for (id, at_ms) in plan.renewed {
            let of = |((session, _), _): &(&(String, String), &mut FollowedRow)| *session == id;
            for (_, row) in self.subscriptions.iter_mut().filter(of) {
                row.expires_at_ms = at_ms;
            }
        }
        for key in plan.removed {
            assert!(
                self.subscriptions.remove(&key).is_some() && self.pointers.remove(&key).is_some()
            );
        }
        let key =
            |row: &FollowedRow| (row.session.clone(), row.followed.subscription.stream.clone());
        for row in plan.subscriptions {
            let name = |row: &FollowedRow| {
                (row.session.clone(), row.followed.subscription.query_id.clone())
            };
            let other = self.subscriptions.values().find(|other| name(other) == name(&row));
            let taken = other.is_some_and(|other| key(other) != key(&row));
            assert!(!taken, "row by row, a name is one stream's: {row:?}");
            self.subscriptions.insert(key(&row), row);
        }
        for row in plan.pointers {
            self.pointers.insert(key(&row), row);
        }
        for (stream, by) in plan.counts {
            *self.counts.entry(stream).or_default() += by;
        }
        self.counts.retain(|_, count| *count != 0);
    }

    fn commit(&mut self, changes: &[SessionChange], now_ms: i64) -> Vec<SessionOutcome> {
        let (outcomes, plan) = decide(self.load(changes, now_ms), changes);
        self.save(plan);
        outcomes
    }

    /// What holds after every commit.
    fn check(&self) {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for ((session, stream), row) in &self.subscriptions {
            let of = &self.sessions[session];
            let pointer = &self.pointers[&(session.clone(), stream.clone())];
            let epoch = row.followed.subscription.epoch;
            assert_eq!(row.expires_at_ms, of.expires_at_ms, "it expires with its session");
            assert_eq!(pointer.followed.subscription.epoch, epoch, "the pointer's epoch");
            assert!(epoch <= of.revision, "{epoch} is the revision that made it");
            *counts.entry(stream.clone()).or_default() += 1;
            let name = &row.followed.subscription.query_id;
            assert!(names.insert((session, name)), "{name} is one stream's in {session}");
        }
        assert_eq!(self.pointers.len(), self.subscriptions.len(), "a pointer each");
        assert_eq!(self.counts, counts);
    }
}

fn change() -> impl Strategy<Value = SessionChange> {
    let pick = |names: &'static [&'static str]| prop::sample::select(names).prop_map(str::to_owned);
    let (session, stream) = (pick(&["s", "t"]), pick(&["a", "b"]));
    let of_both = (session.clone(), stream, 1u64..6, (0u64..9).prop_map(Position::new));
    let ttl_ms = prop::sample::select(vec![0u64, 1, 1_000]);
    let of_session = (session, pick(&["n", "unknown"]), ttl_ms.clone());
    prop_oneof![
        (of_both.clone(), pick(&["q", "r"]), any::<bool>(), ttl_ms).prop_map(
            |((session, stream, _, position), query_id, anew, ttl_ms)| {
                let start = if anew { Start::At(position) } else { Start::Unless(position) };
                SessionChange::Subscribe { session, stream, query_id, start, ttl_ms }
            }
        ),
        of_both
            .clone()
            .prop_map(|(session, stream, ..)| { SessionChange::Unsubscribe { session, stream } }),
        of_both.clone().prop_map(|(session, stream, epoch, position)| {
            SessionChange::Acknowledge { session, stream, epoch, position }
        }),
        of_both.prop_map(|(session, stream, epoch, position)| {
            SessionChange::WentLive { session, stream, epoch, position }
        }),
        of_session.clone().prop_map(|(session, _, ttl_ms)| {
            let owner = Owner { user_id: "ann".to_owned(), host_id: None };
            SessionChange::Open { session, owner, ttl_ms }
        }),
        of_session
            .clone()
            .prop_map(|(session, _, ttl_ms)| { SessionChange::Heartbeat { session, ttl_ms } }),
        of_session.clone().prop_map(|(session, _, _)| {
            SessionChange::Connect { session, node: NODE.to_owned() }
        }),
        of_session.prop_map(|(session, node, ttl_ms)| {
            SessionChange::Disconnect { session, node, ttl_ms }
        }),
    ]
}

proptest! {
    #[test]
    fn a_commit_of_many_does_what_as_many_commits_would(
        batches in prop::collection::vec(prop::collection::vec(change(), 1..8), 1..8)
    ) {
        let (mut together, mut apart) = (Tables::default(), Tables::default());
        for (now_ms, batch) in (NOW_MS..).zip(&batches) {
            let outcomes = together.commit(batch, now_ms);
            let each = batch.iter().flat_map(|change| apart.commit(std::slice::from_ref(change), now_ms));
            prop_assert_eq!(outcomes, each.collect::<Vec<_>>());
            together.check();
            let session = |tables: &Tables| tables.sessions.clone();
            prop_assert_eq!(session(&together), session(&apart));
            let loaded = |tables: &Tables| format!("{:?}", tables.load(batch, now_ms));
            prop_assert_eq!(loaded(&together), loaded(&apart));
        }
        apart.check();
        prop_assert_eq!(together.counts, apart.counts);
    }

    #[test]
    fn no_epoch_is_given_twice(batch in prop::collection::vec(change(), 1..60)) {
        let mut tables = Tables::default();
        let mut last = BTreeMap::new();
        for (change, now_ms) in batch.iter().zip(NOW_MS..) {
            let before = tables.clone();
            for outcome in tables.commit(std::slice::from_ref(change), now_ms) {
                let SessionOutcome::Subscribed(made) = outcome else { continue };
                let (id, _) = change.about();
                let key = (id.to_owned(), made.stream.clone());
                let known = before.subscriptions.get(&key).map(|row| row.followed.subscription.epoch);
                if known != Some(made.epoch) {
                    let previous = last.insert(id.to_owned(), made.epoch).unwrap_or(0);
                    prop_assert!(made.epoch > previous, "{} after {}", made.epoch, previous);
                }
            }
        }
    }
}
