//! Authorization: the one place that every route and every subscription passes.
//!
//! A route says what it does ([`Act`]) in `router`, where leaving it out does not compile; a message
//! on a live connection and a subscription's stream are asked about here as well. What a tenant may
//! reach is decided where the stream is found ([`Reach`](tidewire_store::Reach)), because only there
//! its tenant is known.

use axum::http::StatusCode;

use tidewire_store::ENTITY_PREFIX;

use super::identity::Identity;
use super::scopes::Ability;
use crate::problem::Problem;
use crate::stream_name::is_of_entities;

/// Something that is about to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act<'a> {
    /// Nothing that anyone could object to.
    Nothing,
    /// Something that the route itself asks about, once it knows more: the streams that a message
    /// or a body names, and the session that it is for.
    AsksItself,
    /// To read a stream, or to follow it.
    Read(&'a str),
    /// To be told of entities of a code that no watched table carries. Where tables do, those are asked
    /// about ([`Identity::may_read_of`]).
    ReadEntity(&'a str),
    /// To make a stream, append to it or close it.
    Append(&'a str),
    /// To remove a stream.
    Delete(&'a str),
    /// To follow all streams of a pattern, also those that are yet to come.
    Follow(&'a str),
    /// To run SQL, as the server's database role.
    Sql,
    /// To work for a consumer group, which gets all events that the group reads.
    Consume(&'a str),
    /// To see how the server is doing.
    Observe,
    /// To say what others can.
    Administer,
}

impl Act<'_> {
    /// By which it is counted and logged.
    pub fn name(&self) -> &'static str {
        match self {
            Act::Nothing | Act::AsksItself => "use",
            Act::Read(_) | Act::ReadEntity(_) => "read",
            Act::Append(_) => "append",
            Act::Delete(_) => "delete",
            Act::Follow(_) => "follow",
            Act::Sql => "sql",
            Act::Consume(_) => "consume",
            Act::Observe => "observe",
            Act::Administer => "administer",
        }
    }

    /// What it is done to, for the audit log.
    pub fn subject(&self) -> &str {
        match self {
            Act::Read(name)
            | Act::ReadEntity(name)
            | Act::Append(name)
            | Act::Delete(name)
            | Act::Follow(name)
            | Act::Consume(name) => name,
            Act::Nothing | Act::AsksItself | Act::Sql | Act::Observe | Act::Administer => "",
        }
    }
}

impl Identity {
    /// Whether it may do this. The refusal is the same whether or not what it is about exists.
    pub fn may(&self, act: Act<'_>) -> Result<(), Problem> {
        if let Some(ended) = self.validity().ended() {
            return Err(super::ended(ended));
        }
        let scopes = self.scopes();
        let allowed = match act {
            Act::Nothing | Act::AsksItself => true,
            // How much of it is seen is for the lens to say.
            Act::Read(name) => match table(name) {
                Some(table) => scopes.covers_table(table),
                None => scopes.covers_stream(Ability::Read, name),
            },
            Act::ReadEntity(code) => {
                scopes.covers_stream(Ability::Read, &format!("{ENTITY_PREFIX}{code}"))
            }
            // What is written to a stream of a table or of entities is refused to everyone, with a
            // reason of its own.
            Act::Append(name) | Act::Delete(name)
                if table(name).is_some() || is_of_entities(name) =>
            {
                true
            }
            Act::Append(name) => scopes.covers_stream(Ability::Append, name),
            Act::Delete(name) => scopes.covers_stream(Ability::Delete, name),
            // One who is bound to a tenant would be told of other tenants' streams.
            Act::Follow(pattern) => {
                scopes.covers_pattern(pattern) && *scopes.reach() == tidewire_store::Reach::All
            }
            Act::Sql => scopes.can(Ability::Sql),
            // A group's events are of all tenants.
            Act::Consume(group) => {
                scopes.covers_group(group) && *scopes.reach() == tidewire_store::Reach::All
            }
            Act::Observe => scopes.can(Ability::Observe),
            Act::Administer => scopes.can(Ability::Admin),
        };
        if allowed { Ok(()) } else { Err(forbidden(act)) }
    }

    /// Whether it may read a table in some part, for something that is about it.
    pub fn may_read_of(&self, table: &str, act: Act<'_>) -> Result<(), Problem> {
        if let Some(ended) = self.validity().ended() {
            return Err(super::ended(ended));
        }
        if self.scopes().covers_table(table) { Ok(()) } else { Err(forbidden(act)) }
    }
}

/// The table whose changes a stream holds.
fn table(stream: &str) -> Option<&str> {
    match stream.split_once('/') {
        Some(("table", table)) => Some(table),
        None if stream == "table" => Some(""),
        _ => None,
    }
}

fn forbidden(act: Act<'_>) -> Problem {
    let (detail, hint) = match act {
        Act::Read(_) | Act::Follow(_) => (
            "the credential's scopes do not allow to read this",
            "use a key whose scopes name it in streams or tables, and allow read",
        ),
        Act::ReadEntity(_) => (
            "the credential's scopes do not allow to be told of these entities",
            "use a key whose scopes name, in tables, all tables that carry this entity code; or \
             entity/CODE in streams, if none does; and allow read",
        ),
        Act::Append(_) => (
            "the credential's scopes do not allow to append to this stream",
            "use a key whose scopes name it in streams (and in append, if they have that), and \
             allow append",
        ),
        Act::Delete(_) => (
            "the credential's scopes do not allow to delete this stream",
            "use a key whose scopes name it in streams, and allow delete",
        ),
        Act::Sql => (
            "the credential's scopes do not allow to run SQL",
            "use a key whose scopes allow sql; it is trust with the database itself",
        ),
        Act::Consume(_) => (
            "the credential's scopes do not allow to work for this group",
            "use a key whose scopes name it in groups, allow consume, and are bound to no tenant",
        ),
        Act::Observe => (
            "the credential's scopes do not allow to look at the server",
            "use a key whose scopes allow observe",
        ),
        Act::Nothing | Act::AsksItself | Act::Administer => (
            "the credential's scopes do not allow to administer the server",
            "use the admin key, or a key whose scopes allow admin",
        ),
    };
    Problem::new(StatusCode::FORBIDDEN, "forbidden", detail, hint)
}

/// That something changed does not say which rows and columns it was.
pub fn cannot_tell_apart(act: Act<'_>) -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "rule_not_supported",
        format!(
            "the credential may see some columns or rows only of a table behind {:?}",
            act.subject()
        ),
        "a rule cannot be applied to the word that something changed: subscribe to the table, or use \
         a credential without columns and rows for it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::identity::Who;
    use crate::auth::names::TableNames;
    use crate::auth::scopes::Scopes;
    use crate::auth::validity::Ended;

    fn holder(scopes: &str) -> Identity {
        Identity::new(
            Who::Key(1),
            Scopes::parse(scopes, &(), &TableNames::none()).expect("well formed"),
            None,
        )
    }

    #[test]
    fn tables_and_streams_are_apart() {
        let tables = holder(r#"{"tables": ["orders"], "can": ["read", "append"]}"#);
        assert!(tables.may(Act::Read("table/orders")).is_ok());
        assert!(tables.may(Act::Read("table/customers")).is_err());
        assert!(tables.may(Act::Read("orders")).is_err());
        let streams = holder(r#"{"tables": [], "streams": ["*"]}"#);
        assert!(streams.may(Act::Read("doc/1")).is_ok());
        assert!(streams.may(Act::Read("table/orders")).is_err(), "a star over streams is no table");
        assert!(streams.may(Act::Read("table")).is_err());
    }

    #[test]
    fn entities_are_for_those_who_may_read_their_tables() {
        let act = Act::ReadEntity("order");
        let code = |result: Result<(), Problem>| result.err().map(|problem| problem.code());
        let reader = holder(r#"{"tables": ["orders"]}"#);
        assert_eq!(code(reader.may_read_of("orders", act)), None);
        assert_eq!(code(reader.may_read_of("customers", act)), Some("forbidden"));
        assert_eq!(code(reader.may(act)), Some("forbidden"), "it names no such stream");
        let named = holder(r#"{"tables": [], "streams": ["entity/order"]}"#);
        assert_eq!(code(named.may(act)), None);
        assert_eq!(code(named.may(Act::ReadEntity("task"))), Some("forbidden"));
    }

    #[test]
    fn a_tenant_follows_no_pattern() {
        let bound = holder(r#"{"tables": [], "streams": ["*"], "host": "acme"}"#);
        assert!(bound.may(Act::Follow("doc/**")).is_err());
        let free = holder(r#"{"tables": [], "streams": ["doc/**"]}"#);
        assert!(free.may(Act::Follow("doc/**")).is_ok());
        assert!(free.may(Act::Follow("**")).is_err());
    }

    #[test]
    fn a_pattern_over_streams_takes_in_no_table() {
        let all = holder(r#"{"tables": ["*"], "streams": ["*"]}"#);
        assert!(all.may(Act::Follow("doc/**")).is_ok());
        for pattern in ["**", "*/orders", "table/orders", "/table/**"] {
            assert!(all.may(Act::Follow(pattern)).is_err(), "{pattern}");
        }
    }

    #[test]
    fn work_for_a_group_is_for_those_who_are_named_and_free() {
        let worker = holder(r#"{"tables": [], "groups": ["billing-*"], "can": ["consume"]}"#);
        assert!(worker.may(Act::Consume("billing-eu")).is_ok());
        assert!(worker.may(Act::Consume("mail")).is_err());
        for scopes in [
            r#"{"tables": [], "groups": ["*"], "can": ["consume"], "host": "acme"}"#,
            r#"{"tables": [], "groups": ["*"]}"#,
            r#"{"tables": ["*"], "streams": ["*"], "can": ["consume", "sql"]}"#,
        ] {
            assert!(holder(scopes).may(Act::Consume("billing-eu")).is_err(), "{scopes}");
        }
        assert!(holder(r#"{"tables": [], "can": ["admin"]}"#).may(Act::Consume("a")).is_ok());
    }

    #[test]
    fn nothing_is_allowed_once_the_credential_has_ended() {
        let admin = Identity::new(Who::Admin, Scopes::unlimited(), None);
        assert!(admin.may(Act::Administer).is_ok());
        admin.validity().end(Ended::Revoked);
        assert_eq!(admin.may(Act::Nothing).expect_err("ended").code(), "key_revoked");
    }

    #[test]
    fn a_stranger_may_do_nothing() {
        let stranger = Identity::stranger();
        for act in [Act::Read("a"), Act::Append("a"), Act::Delete("a"), Act::Consume("a")] {
            assert!(stranger.may(act).is_err(), "{act:?}");
        }
    }
}
