//! A client of a live query: what it was told, and what it therefore has.

use tidewire_query::{Delta, Position, RowText};

/// What someone has who follows a query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client {
    pub(crate) rows: Vec<RowText>,
    /// Whether it has been told anything.
    pub(crate) begun: bool,
    /// The last place that it was told to be exact at, and whether anything came since without one.
    pub(crate) position: Option<Position>,
    pub(crate) unsettled: bool,
}

impl Client {
    /// All rows anew.
    pub(crate) fn begin(&mut self, rows: &[RowText]) {
        self.rows = rows.to_vec();
        self.begun = true;
    }

    /// It is told where it is. Says what is wrong with that, if anything is.
    pub(crate) fn at(&mut self, position: Option<Position>) -> Result<(), String> {
        let Some(position) = position else {
            self.unsettled = true;
            return Ok(());
        };
        if let Some(before) = self.position.filter(|before| *before > position) {
            return Err(format!("the position goes back from {} to {}", before.0, position.0));
        }
        self.position = Some(position);
        self.unsettled = false;
        Ok(())
    }

    /// The result changed. Says what does not fit, if anything does not.
    pub(crate) fn change(&mut self, delta: &Delta) -> Result<(), String> {
        if delta.is_empty() {
            return Err("a change of nothing".to_owned());
        }
        match &delta.places {
            Some(_) => self.change_in_order(delta),
            None => self.change_anywhere(delta),
        }
    }

    fn change_anywhere(&mut self, delta: &Delta) -> Result<(), String> {
        for old in delta.deleted.iter().chain(delta.updated.iter().map(|(old, _)| old)) {
            let found = self.rows.iter().position(|row| row == old);
            let found = found.ok_or_else(|| format!("a row goes that is not there: {old}"))?;
            self.rows.swap_remove(found);
        }
        self.rows.extend(delta.updated.iter().map(|(_, new)| new).cloned());
        self.rows.extend(delta.inserted.iter().cloned());
        Ok(())
    }

    fn change_in_order(&mut self, delta: &Delta) -> Result<(), String> {
        let places = delta.places.as_ref().ok_or("no places")?;
        let (deleted, updated, inserted) = (&places.deleted, &places.updated, &places.inserted);
        if deleted.len() != delta.deleted.len()
            || updated.len() != delta.updated.len()
            || inserted.len() != delta.inserted.len()
        {
            return Err("there are not as many places as rows".to_owned());
        }
        self.remove(deleted.iter().zip(&delta.deleted).map(|(at, row)| (*at, row)).collect())?;
        let old = updated.iter().zip(&delta.updated).map(|((from, _), (old, _))| (*from, old));
        self.remove(old.collect())?;
        let new = updated.iter().zip(&delta.updated).map(|((_, at), (_, new))| (*at, new));
        self.insert(new.collect())?;
        self.insert(inserted.iter().zip(&delta.inserted).map(|(at, row)| (*at, row)).collect())
    }

    fn remove(&mut self, mut rows: Vec<(u32, &RowText)>) -> Result<(), String> {
        rows.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (at, row) in rows {
            let at = usize::try_from(at).map_err(|error| error.to_string())?;
            if self.rows.get(at) != Some(row) {
                return Err(format!("there is {:?} at {at}, and {row} goes", self.rows.get(at)));
            }
            self.rows.remove(at);
        }
        Ok(())
    }

    fn insert(&mut self, mut rows: Vec<(u32, &RowText)>) -> Result<(), String> {
        rows.sort_by_key(|(at, _)| *at);
        for (at, row) in rows {
            let at = usize::try_from(at).map_err(|error| error.to_string())?;
            if at > self.rows.len() {
                return Err(format!("{row} comes to {at}, and there are {}", self.rows.len()));
            }
            self.rows.insert(at, row.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidewire_query::Places;

    use super::*;

    fn rows(names: &[&str]) -> Vec<RowText> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn a_client_takes_changes_in_their_order() {
        let mut client = Client::default();
        client.begin(&rows(&["a", "b", "c", "d"]));
        let delta = Delta {
            deleted: rows(&["b"]),
            updated: vec![("d".into(), "e".into())],
            inserted: rows(&["x"]),
            places: Some(Places { deleted: vec![1], updated: vec![(2, 0)], inserted: vec![2] }),
        };
        client.change(&delta).expect("it fits");
        assert_eq!(client.rows, rows(&["e", "a", "x", "c"]));
        let wrong = client.change(&delta).expect_err("a deleted row must be there");
        assert!(wrong.contains(", and "), "{wrong}");
    }

    #[test]
    fn a_client_without_an_order_has_a_multiset() {
        let mut client = Client::default();
        client.begin(&rows(&["a", "a", "b"]));
        let delta = Delta {
            deleted: rows(&["a"]),
            updated: vec![("b".into(), "c".into())],
            ..Delta::default()
        };
        client.change(&delta).expect("it fits");
        client.rows.sort();
        assert_eq!(client.rows, rows(&["a", "c"]));
        let wrong = client.change(&delta).expect_err("a deleted row must be there");
        assert!(wrong.contains("a row goes that is not there"), "{wrong}");
    }

    #[test]
    fn positions_do_not_go_back() {
        let mut client = Client::default();
        client.at(Some(Position(5))).expect("forward");
        client.at(None).expect("not known");
        assert!(client.unsettled);
        let wrong = client.at(Some(Position(4))).expect_err("it went back");
        assert_eq!(wrong, "the position goes back from 5 to 4");
    }
}
