//! Someone who follows a query, believes what is told, and holds every position against the database.

use super::database::Database;
use super::queries::SimulatedQuery;
use crate::delta::RowText;
use crate::engine::project;
use crate::engine::{Output, QueryId};
use crate::position::Position;

#[derive(Debug)]
pub(super) struct Client {
    pub(super) query: QueryId,
    pub(super) asked: usize,
    pub(super) rows: Option<Vec<RowText>>,
    /// The last position that was told.
    pub(super) position: Option<Position>,
    /// Whether the rows are those of a position that was told.
    pub(super) is_placed: bool,
    /// Whether all rows come again, and nothing else before them.
    pub(super) waits_for_reset: bool,
}

impl Client {
    pub(super) fn new(query: QueryId, asked: usize) -> Client {
        let (is_placed, waits_for_reset) = (false, false);
        Client { query, asked, rows: None, position: None, is_placed, waits_for_reset }
    }

    /// Takes what is said to it.
    pub(super) fn hear(&mut self, output: &Output, asked: &SimulatedQuery, database: &Database) {
        match output {
            Output::Begin { rows, at, reset, .. } => {
                assert_eq!(*reset, self.rows.is_some(), "a reset is for those who have rows");
                self.rows = Some(rows.to_vec());
                self.waits_for_reset = false;
                self.move_to(*at, asked, database);
            }
            Output::Change { delta, at, .. } => {
                assert!(!self.waits_for_reset, "a change for someone who waits for all rows");
                assert!(!delta.is_empty(), "a change that is none");
                assert_eq!(delta.places.is_some(), asked.query.ordered);
                let rows = self.rows.as_ref().expect("a change for someone who has begun");
                self.rows = Some(delta.apply(rows).expect("a change of rows that are there"));
                self.move_to(*at, asked, database);
            }
            Output::Settled { at, .. } => {
                assert!(!self.waits_for_reset, "a position for someone who waits for all rows");
                self.move_to(Some(*at), asked, database);
            }
            Output::Ask { .. } | Output::Plan { .. } | Output::End { .. } => {}
        }
    }

    fn move_to(&mut self, at: Option<Position>, asked: &SimulatedQuery, database: &Database) {
        self.is_placed = at.is_some();
        if let Some(at) = at {
            assert!(self.position <= Some(at), "from {:?} back to {at:?}", self.position);
            self.position = Some(at);
            self.check(at, asked, database);
        }
    }

    /// Q1: the rows are what the query gives at a position.
    pub(super) fn check(&self, at: Position, asked: &SimulatedQuery, database: &Database) {
        let mut mine = self.rows.clone().expect("rows at a position");
        let truth = (asked.run)(&database.contents_at(at));
        let mut truth = texts(asked, &truth);
        if !asked.query.ordered {
            mine.sort();
            truth.sort();
        }
        assert_eq!(mine, truth, "query {} at {at:?}", asked.query.rerun);
    }
}

fn texts(asked: &SimulatedQuery, rows: &[Vec<i64>]) -> Vec<RowText> {
    let text = |row: &Vec<i64>| {
        let values = super::values(row);
        project::of_values(&asked.query.columns, &values).expect("as many values as columns")
    };
    rows.iter().map(text).collect()
}
