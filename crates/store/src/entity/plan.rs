//! The net effect of a batch of edits: for each connection what is removed, and then what is added.
//!
//! Edits are made in order, but a statement writes any number of rows: so an edit that a later one
//! undoes is left out, and what is left is the same whichever way its rows are ordered, as long as
//! rows are removed before others are added. Both stores write plans.

use std::collections::{BTreeMap, BTreeSet};

use super::{EntityEdit, EntitySubscription};

/// One connection's part.
#[derive(Debug, Default)]
struct Connection<'a> {
    /// All its rows go.
    gone: bool,
    /// The node that takes up what SQL made.
    adopted_by: Option<&'a str>,
    codes: BTreeMap<&'a str, Code<'a>>,
}

/// One kind of entity's part of that.
#[derive(Debug, Default)]
struct Code<'a> {
    /// All rows of this kind go.
    cleared: bool,
    removed: BTreeSet<&'a str>,
    added: BTreeMap<&'a str, &'a EntitySubscription>,
}

/// What to write.
#[derive(Debug, Default)]
pub struct EntityPlan<'a>(BTreeMap<&'a str, Connection<'a>>);

impl<'a> EntityPlan<'a> {
    pub fn of(edits: &'a [EntityEdit]) -> EntityPlan<'a> {
        let mut plan = EntityPlan::default();
        for edit in edits {
            plan.take(edit);
        }
        plan
    }

    fn take(&mut self, edit: &'a EntityEdit) {
        match edit {
            EntityEdit::Subscribe(subscription) => {
                let code = self.code(&subscription.connection_id, &subscription.code);
                for id in &subscription.ids {
                    code.added.entry(id).or_insert(subscription);
                }
            }
            EntityEdit::Unsubscribe { connection_id, code, ids: Some(ids) } => {
                let code = self.code(connection_id, code);
                for id in ids {
                    code.added.remove(id.as_str());
                    code.removed.insert(id);
                }
            }
            EntityEdit::Unsubscribe { connection_id, code, ids: None } => {
                *self.code(connection_id, code) = Code { cleared: true, ..Code::default() };
            }
            EntityEdit::Adopt { connection_id, node_id } => {
                self.0.entry(connection_id).or_default().adopted_by = Some(node_id);
            }
            EntityEdit::Disconnect { connection_id } => {
                self.0.insert(connection_id, Connection { gone: true, ..Connection::default() });
            }
        }
    }

    fn code(&mut self, connection_id: &'a str, code: &'a str) -> &mut Code<'a> {
        self.0.entry(connection_id).or_default().codes.entry(code).or_default()
    }

    fn codes(&self) -> impl Iterator<Item = (&'a str, &'a str, &Code<'a>)> {
        self.0.iter().flat_map(|(connection_id, connection)| {
            connection.codes.iter().map(|(code, edits)| (*connection_id, *code, edits))
        })
    }

    /// Connections of which nothing stays.
    pub fn gone(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(|(_, connection)| connection.gone).map(|(id, _)| *id)
    }

    /// Connections and kinds of which nothing stays.
    pub fn cleared(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let cleared = self.codes().filter(|(_, _, edits)| edits.cleared);
        cleared.map(|(connection_id, code, _)| (connection_id, code))
    }

    /// Rows that go: connection, kind and id.
    pub fn removed(&self) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        self.codes().flat_map(|(connection_id, code, edits)| {
            edits.removed.iter().map(move |id| (connection_id, code, *id))
        })
    }

    /// Connections whose rows a node takes up, and the node.
    pub fn adopted(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(|(id, connection)| Some((*id, connection.adopted_by?)))
    }

    /// Rows that come, each with what is known of it besides its id.
    pub fn added(&self) -> impl Iterator<Item = (&'a str, &'a EntitySubscription)> {
        self.codes().flat_map(|(_, _, edits)| edits.added.iter().map(|(id, of)| (*id, *of)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Rows = BTreeSet<(String, String, String)>;

    fn row(connection: &str, code: &str, id: &str) -> (String, String, String) {
        (connection.to_owned(), code.to_owned(), id.to_owned())
    }

    /// The edits one after the other.
    fn one_by_one(mut rows: Rows, edits: &[EntityEdit]) -> Rows {
        for edit in edits {
            match edit {
                EntityEdit::Subscribe(EntitySubscription { connection_id, code, ids, .. }) => {
                    rows.extend(ids.iter().map(|id| row(connection_id, code, id)));
                }
                EntityEdit::Unsubscribe { connection_id, code, ids } => {
                    rows.retain(|(at, of, id)| {
                        let named = ids.as_ref().is_none_or(|ids| ids.contains(id));
                        !(at == connection_id && of == code && named)
                    })
                }
                // It is about whose rows are, not about which there are.
                EntityEdit::Adopt { .. } => {}
                EntityEdit::Disconnect { connection_id } => {
                    rows.retain(|(at, _, _)| at != connection_id);
                }
            }
        }
        rows
    }

    /// The plan as a store writes it.
    fn written(mut rows: Rows, plan: &EntityPlan<'_>) -> Rows {
        for connection in plan.gone() {
            rows.retain(|(at, _, _)| at != connection);
        }
        for (connection, code) in plan.cleared() {
            rows.retain(|(at, of, _)| !(at == connection && of == code));
        }
        for (connection, code, id) in plan.removed() {
            rows.remove(&row(connection, code, id));
        }
        rows.extend(plan.added().map(|(id, of)| row(&of.connection_id, &of.code, id)));
        rows
    }

    fn edits() -> impl Strategy<Value = Vec<EntityEdit>> {
        let ids = || prop::collection::vec("[1-4]", 0..4);
        let subscribe = ("[ab]", "[pq]", ids()).prop_map(|(connection_id, code, ids)| {
            let (user_id, host_id, node_id) = (String::new(), None, "n".to_owned());
            EntityEdit::Subscribe(EntitySubscription {
                user_id,
                host_id,
                connection_id,
                node_id,
                code,
                ids,
            })
        });
        let unsubscribe =
            ("[ab]", "[pq]", prop::option::of(ids())).prop_map(|(connection_id, code, ids)| {
                EntityEdit::Unsubscribe { connection_id, code, ids }
            });
        let adopt = "[ab]".prop_map(|connection_id| {
            let node_id = "n".to_owned();
            EntityEdit::Adopt { connection_id, node_id }
        });
        let disconnect = "[ab]".prop_map(|connection_id| EntityEdit::Disconnect { connection_id });
        prop::collection::vec(
            prop_oneof![4 => subscribe, 3 => unsubscribe, 1 => adopt, 1 => disconnect],
            0..12,
        )
    }

    proptest! {
        #[test]
        fn a_plan_does_what_its_edits_would_one_by_one(before in edits(), edits in edits()) {
            let before = one_by_one(Rows::new(), &before);
            let plan = EntityPlan::of(&edits);
            prop_assert_eq!(written(before.clone(), &plan), one_by_one(before, &edits));
        }
    }
}
