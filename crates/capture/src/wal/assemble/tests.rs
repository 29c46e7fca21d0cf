//! Transactions of all sizes, cut at every position, and read again from there.

use std::sync::Arc;

use proptest::prelude::*;
use tidewire_store_postgres::wal::WatchedTable;

use super::*;

fn table(role: Role) -> Arc<Table> {
    Arc::new(Table { columns: Vec::new(), role })
}

fn watched() -> Arc<Table> {
    let watch = WatchedTable {
        table_id: 1,
        table_name: "orders".to_owned(),
        stream_id: "table/orders".to_owned(),
        key_columns: vec!["id".to_owned()],
        entity_code: None,
        host_column: None,
        user_column: None,
    };
    table(Role::Watched(Arc::new(watch)))
}

fn insert(table: &Arc<Table>) -> Change {
    Change::Insert { table: Arc::clone(table), new: Vec::new() }
}

/// What the log would have: the transaction of each entry, and whether it was marked as the last.
fn log(pieces: &[Piece]) -> Vec<(u32, bool)> {
    pieces.iter().flat_map(|piece| &piece.entries).map(|entry| (entry.xid, entry.last)).collect()
}

#[test]
fn the_latest_change_of_an_open_transaction_is_held_back() {
    let table = watched();
    let mut assembler = Assembler::new(WalPosition { lsn: 10, part: None });
    assembler.begin(50, 0, 7);
    assembler.change(insert(&table));
    assert!(assembler.take().entries.is_empty());
    assembler.change(insert(&table));
    let first = assembler.take();
    assert_eq!((first.entries.len(), first.entries[0].last), (1, false));
    assert_eq!(first.next, WalPosition { lsn: 10, part: Some((50, 1)) });
    assembler.commit(60);
    let second = assembler.take();
    assert_eq!((second.entries.len(), second.entries[0].last), (1, true));
    assert_eq!(second.next, WalPosition { lsn: 60, part: None });
}

#[test]
fn a_transaction_in_the_log_in_part_goes_on_after_that_part() {
    let table = watched();
    let mut assembler = Assembler::new(WalPosition { lsn: 10, part: Some((50, 2)) });
    assembler.begin(50, 0, 7);
    for _ in 0..3 {
        assembler.change(insert(&table));
    }
    assembler.commit(60);
    let piece = assembler.take();
    assert_eq!((piece.entries.len(), piece.entries[0].last), (1, true));
}

#[test]
fn a_transaction_whose_rest_does_not_matter_any_more_still_ends() {
    let forgotten = table(Role::Forgotten);
    let mut assembler = Assembler::new(WalPosition { lsn: 10, part: Some((50, 2)) });
    assembler.begin(50, 0, 7);
    for _ in 0..3 {
        assembler.change(insert(&forgotten));
    }
    assembler.commit(60);
    let piece = assembler.take();
    assert_eq!(piece.entries.len(), 1);
    assert_eq!((&piece.entries[0].change, piece.entries[0].last), (&Change::End, true));
}

#[test]
fn what_was_read_before_is_passed_over() {
    let table = watched();
    let mut assembler = Assembler::new(WalPosition { lsn: 70, part: None });
    assembler.begin(50, 0, 7);
    assembler.change(insert(&table));
    assembler.commit(60);
    assert!(assembler.is_empty());
    assert_eq!(assembler.lsn(), 70);
}

#[test]
fn an_actor_is_known_even_where_reading_goes_on_after_it_was_named() {
    let table = watched();
    let mut assembler = Assembler::new(WalPosition { lsn: 10, part: Some((50, 1)) });
    assembler.begin(50, 0, 7);
    let ann = Actor { user_id: Some("ann".to_owned()), host_id: None };
    assembler.actor(ann.clone());
    assembler.change(insert(&table));
    assembler.change(insert(&table));
    assembler.commit(60);
    assembler.begin(80, 0, 8);
    assembler.change(insert(&table));
    assembler.commit(90);
    let actors: Vec<Actor> =
        assembler.take().entries.into_iter().map(|entry| entry.actor).collect();
    assert_eq!(actors, [ann, Actor::default()]);
}

/// Plays transactions of so many changes (some of which do not matter), handing over where `cuts` say,
/// and dying where the position would be taken from what was handed over last.
fn play(
    transactions: &[Vec<bool>],
    cuts: &mut impl Iterator<Item = (bool, bool)>,
) -> Vec<(u32, bool)> {
    let (watched, forgotten) = (watched(), table(Role::Forgotten));
    let mut pieces: Vec<Piece> = Vec::new();
    'again: loop {
        let position = pieces.last().map_or(WalPosition { lsn: 0, part: None }, |piece| piece.next);
        let mut assembler = Assembler::new(position);
        for (index, changes) in transactions.iter().enumerate() {
            let xid = u32::try_from(index).expect("few");
            let at = 100 * (u64::from(xid) + 1);
            assembler.begin(at, 0, xid);
            for matters in changes {
                assembler.change(insert(if *matters { &watched } else { &forgotten }));
                let (cut, die) = cuts.next().unwrap_or((false, false));
                if cut {
                    pieces.push(assembler.take());
                }
                if die {
                    continue 'again;
                }
            }
            assembler.commit(at + 10);
        }
        pieces.push(assembler.take());
        return log(&pieces);
    }
}

proptest! {
    #[test]
    fn wherever_it_is_cut_and_however_often_it_dies_the_log_is_the_same(
        transactions in proptest::collection::vec(
            proptest::collection::vec(any::<bool>(), 0..8), 0..6),
        cuts in proptest::collection::vec((any::<bool>(), proptest::bool::weighted(0.2)), 0..120),
    ) {
        let whole = play(&transactions, &mut std::iter::empty());
        let cut = play(&transactions, &mut cuts.into_iter());
        prop_assert_eq!(&whole, &cut);
        let lasts = whole.iter().filter(|(_, last)| *last).count();
        let with_events = transactions.iter().filter(|changes| changes.contains(&true)).count();
        prop_assert_eq!(lasts, with_events);
    }
}
