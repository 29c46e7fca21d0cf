//! The queries that are registered, and the rows that change.

use serde::{Deserialize, Serialize};
use tidewire_query::{Column, Dialect, Table};

/// Queries that one special row is one of, besides all others.
pub(super) const HUNDRED: usize = 100;
/// Of the mix, every so manieth has no value that it could be found by.
const UNINDEXED_EACH: usize = 100;
/// How far apart ranges begin; each is half as long.
const RANGE_STEP: usize = 10;
/// The customer whose row is one of a hundred queries: no other query names it.
const SPECIAL: usize = 4_000_000_000;

/// What queries of a run ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Family {
    Equality,
    TwoColumns,
    Ranges,
    Mix,
}

impl Family {
    pub(super) const ALL: [Family; 4] =
        [Family::Equality, Family::TwoColumns, Family::Ranges, Family::Mix];

    pub(super) fn name(self) -> &'static str {
        match self {
            Family::Equality => "equality",
            Family::TwoColumns => "two columns",
            Family::Ranges => "ranges",
            Family::Mix => "mix, 1 % unindexed",
        }
    }

    /// Whether all its queries can be found by values.
    pub(super) fn is_indexed(self) -> bool {
        self != Family::Mix
    }

    /// The condition of the nth query.
    pub(super) fn condition(self, n: usize) -> String {
        match self.form_of(n) {
            Some(Family::Equality) => format!("customer_id = {n}"),
            Some(Family::TwoColumns) => {
                format!("region = '{}' AND customer_id = {n}", region(n))
            }
            Some(Family::Ranges) => {
                let low = n * RANGE_STEP;
                format!("total BETWEEN {low} AND {}", low + RANGE_STEP / 2)
            }
            Some(Family::Mix) | None => format!("note LIKE '%number {n}!%'"),
        }
    }

    /// One of the hundred that are found by one row, of which they say something more.
    pub(super) fn special(self, n: usize) -> String {
        let also = format!("id <> {n}");
        match self {
            Family::Equality | Family::Mix => format!("customer_id = {SPECIAL} AND {also}"),
            Family::TwoColumns => {
                format!("region = '{}' AND customer_id = {SPECIAL} AND {also}", region(SPECIAL))
            }
            Family::Ranges => format!(
                "total BETWEEN {} AND {} AND {also}",
                SPECIAL * RANGE_STEP,
                SPECIAL * RANGE_STEP + RANGE_STEP / 2
            ),
        }
    }

    /// A row that is one of the nth query alone. In the mix those without a value are not hit.
    pub(super) fn hit(self, n: usize) -> String {
        match self.form_of(n) {
            Some(Family::Ranges) => image(SPECIAL + 1, "nowhere", n * RANGE_STEP + 2),
            _ => image(n, region(n), RANGE_STEP - 1),
        }
    }

    /// A row that is of no query; others each time.
    pub(super) fn miss(self, n: usize) -> String {
        image(SPECIAL + 1 + n, region(n), n * RANGE_STEP + RANGE_STEP - 1)
    }

    /// The row that is one of the hundred.
    pub(super) fn special_hit(self) -> String {
        match self {
            Family::Ranges => image(SPECIAL + 1, "nowhere", SPECIAL * RANGE_STEP + 1),
            _ => image(SPECIAL, region(SPECIAL), RANGE_STEP - 1),
        }
    }

    /// What the nth query of a mix is: a third of each form, and one in a hundred of none.
    fn form_of(self, n: usize) -> Option<Family> {
        if self != Family::Mix {
            return Some(self);
        }
        match n {
            n if n % UNINDEXED_EACH == UNINDEXED_EACH - 1 => None,
            n => Some([Family::Equality, Family::TwoColumns, Family::Ranges][n % 3]),
        }
    }
}

fn region(n: usize) -> &'static str {
    ["north", "south", "east", "west"][n % 4]
}

/// The image of an order, as an event has it.
fn image(customer: usize, region: &str, total: usize) -> String {
    format!(
        "{{\"id\":1000000,\"customer_id\":{customer},\"region\":\"{region}\",\"status\":\"paid\",\
         \"total\":{total}.00,\"note\":\"leave it at the door\",\"created_at\":\
         \"2026-02-03T04:05:06.789+00:00\",\"updated_at\":null}}"
    )
}

/// The table of orders.
pub(super) fn orders() -> Table {
    let column = |(name, type_name): (&str, &str)| Column {
        name: name.into(),
        type_name: type_name.into(),
        collation: (type_name == "text").then(|| "C".into()),
    };
    let columns = [
        ("id", "int8"),
        ("customer_id", "int8"),
        ("region", "text"),
        ("status", "text"),
        ("total", "numeric"),
        ("note", "text"),
        ("created_at", "timestamptz"),
        ("updated_at", "timestamptz"),
    ];
    Table { dialect: Dialect::Postgres, columns: columns.map(column).into() }
}
