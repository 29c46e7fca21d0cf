//! Results after messages, compared with the rows they must have.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn texts_of(rows: &[&str]) -> Vec<RowText> {
    rows.iter().map(|row| (*row).into()).collect()
}

fn shown(result: &QueryResult) -> Vec<&str> {
    result.rows().iter().map(|row| &**row).collect()
}

fn part(message: &serde_json::Value) -> ChangePart {
    serde_json::from_str(&message.to_string()).expect("a change")
}

fn begun(rows: &[&str]) -> QueryResult {
    let mut result = QueryResult::default();
    let told = result.begin(QueryBegun::default(), Some("5"), false, texts_of(rows), false);
    assert_eq!(told, ResultUpdate::Began);
    result
}

#[test]
fn first_rows_come_in_pieces_and_count_when_all_are_there() {
    let mut result = QueryResult::default();
    let first = result.begin(QueryBegun::default(), Some("5"), false, texts_of(&["1"]), true);
    assert_eq!(first, ResultUpdate::Nothing);
    assert_eq!((shown(&result), result.resumes_at()), (vec![], None));
    let early = json!({"change_type": "INSERT", "rows": [4], "offset": "6"});
    assert_eq!(result.change(part(&early)), ResultUpdate::Nothing);
    assert_eq!(result.batch(texts_of(&["2"]), true), ResultUpdate::Nothing);
    assert_eq!(result.batch(texts_of(&["3"]), false), ResultUpdate::Began);
    assert_eq!((shown(&result), result.offset()), (vec!["1", "2", "3", "4"], Some("6")));
}

#[test]
fn a_result_without_an_order_is_a_bag() {
    let mut result = begun(&["1", "1", "2"]);
    let delete =
        json!({"change_type": "DELETE", "rows": [1], "offset": "6", "part": 0, "more": true});
    let update = json!({"change_type": "UPDATE", "rows": [3], "old_rows": [1], "offset": "6", "part": 1,
        "more": true});
    let insert =
        json!({"change_type": "INSERT", "rows": [2], "offset": "6", "part": 2, "more": false});
    assert_eq!(result.change(part(&delete)), ResultUpdate::Nothing);
    assert_eq!(result.change(part(&update)), ResultUpdate::Nothing);
    assert_eq!(shown(&result), ["1", "1", "2"]);
    let [one, two, three] = ["1", "2", "3"].map(RowText::from);
    let expected = ResultUpdate::Changed(vec![
        RowChange::Deleted(one.clone()),
        RowChange::Updated { old: one, new: three },
        RowChange::Inserted(two),
    ]);
    assert_eq!(result.change(part(&insert)), expected);
    assert_eq!((shown(&result), result.offset()), (vec!["3", "2", "2"], Some("6")));
}

#[test]
fn what_was_taken_in_is_not_taken_in_again() {
    let mut result = begun(&["1"]);
    for again in ["4", "5"] {
        let known = json!({"change_type": "INSERT", "rows": [9], "offset": again});
        assert_eq!(result.change(part(&known)), ResultUpdate::Nothing);
    }
    let first =
        json!({"change_type": "DELETE", "rows": [1], "offset": "6", "part": 0, "more": true});
    let last = json!({"change_type": "INSERT", "rows": [2], "offset": "6", "part": 1});
    for (message, changes) in [(&first, false), (&first, false), (&last, true), (&last, false)] {
        let told = result.change(part(message));
        assert_eq!(matches!(told, ResultUpdate::Changed(_)), changes, "{message}");
    }
    assert_eq!(shown(&result), ["2"]);
}

#[test]
fn a_change_without_an_offset_is_exact_when_that_is_said() {
    let mut result = begun(&["1"]);
    let change = json!({"change_type": "INSERT", "rows": [2], "offset": null});
    assert!(matches!(result.change(part(&change)), ResultUpdate::Changed(_)));
    assert_eq!(result.resumes_at(), None);
    assert_eq!(result.settled("8"), ResultUpdate::Settled);
    assert_eq!(result.resumes_at(), Some("8"));
}

#[test]
fn what_was_not_complete_when_the_connection_went_is_forgotten() {
    let mut result = begun(&["1"]);
    let half =
        json!({"change_type": "DELETE", "rows": [1], "offset": "6", "part": 0, "more": true});
    assert_eq!(result.change(part(&half)), ResultUpdate::Nothing);
    result.interrupt();
    assert_eq!((shown(&result), result.resumes_at()), (vec!["1"], Some("5")));
    let told = result.begin(QueryBegun::default(), Some("5"), true, Vec::new(), false);
    assert_eq!(told, ResultUpdate::Settled);
    let again =
        json!({"change_type": "DELETE", "rows": [1], "offset": "6", "part": 0, "more": false});
    assert!(matches!(result.change(part(&again)), ResultUpdate::Changed(_)));
    assert_eq!(shown(&result), [""; 0]);
}

#[test]
fn what_does_not_fit_is_told() {
    for change in [
        json!({"change_type": "DELETE", "rows": [7], "offset": "6"}),
        json!({"change_type": "DELETE", "rows": [1], "from": [3], "offset": "6"}),
        json!({"change_type": "UPDATE", "rows": [1], "old_rows": [], "offset": "6"}),
        json!({"change_type": "UPDATE", "rows": [8], "old_rows": [7], "offset": "6"}),
        json!({"change_type": "INSERT", "rows": [1], "at": [5], "offset": "6"}),
    ] {
        assert_eq!(begun(&["1", "2"]).change(part(&change)), ResultUpdate::OutOfStep, "{change}");
    }
}

/// The messages by which one list of different rows becomes another, with places, as PROTOCOL has them:
/// rows that stay but not in their order move by an update.
fn difference(before: &[u32], after: &[u32]) -> Vec<serde_json::Value> {
    let place = |list: &[u32], row: &u32| list.iter().position(|other| other == row);
    let mut now = before.to_vec();
    let mut parts = Vec::new();
    let gone: Vec<u32> = now.iter().copied().filter(|row| !after.contains(row)).collect();
    let from: Vec<_> = gone.iter().filter_map(|row| place(&now, row)).collect();
    now.retain(|row| !gone.contains(row));
    if !gone.is_empty() {
        parts.push(json!({"change_type": "DELETE", "rows": gone, "from": from}));
    }
    let kept: Vec<u32> = after.iter().copied().filter(|row| now.contains(row)).collect();
    let from: Vec<_> = now.iter().filter_map(|row| place(&now, row)).collect();
    if now != kept {
        let at: Vec<_> = now.iter().filter_map(|row| place(&kept, row)).collect();
        parts.push(
            json!({"change_type": "UPDATE", "rows": now, "old_rows": now, "from": from, "at": at}),
        );
    }
    let new: Vec<u32> = after.iter().copied().filter(|row| !kept.contains(row)).collect();
    let at: Vec<_> = new.iter().filter_map(|row| place(after, row)).collect();
    if !new.is_empty() {
        parts.push(json!({"change_type": "INSERT", "rows": new, "at": at}));
    }
    let last = parts.len().saturating_sub(1);
    for (number, part) in parts.iter_mut().enumerate() {
        part["part"] = number.into();
        part["more"] = (number < last).into();
    }
    parts
}

proptest! {
    #[test]
    fn places_lead_from_any_order_to_any_other(
        before in Just((0..9_u32).collect::<Vec<_>>()).prop_shuffle(),
        after in Just((4..14_u32).collect::<Vec<_>>()).prop_shuffle(),
        cut in (0..9_usize, 0..10_usize),
    ) {
        let (before, after) = (&before[cut.0..], &after[cut.1..]);
        let rows: Vec<String> = before.iter().map(ToString::to_string).collect();
        let mut result = begun(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        for message in difference(before, after) {
            prop_assert_ne!(result.change(part(&message)), ResultUpdate::OutOfStep);
        }
        let expected: Vec<String> = after.iter().map(ToString::to_string).collect();
        prop_assert_eq!(shown(&result), expected);
    }
}
