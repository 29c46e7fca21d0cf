//! Values that only the database can write in the form of events: those of type `json`, whose text is kept as it
//! was given, and those of types that have a cast of their own to JSON, such as `hstore`.
//!
//! The database is asked once for each such column, with the texts it has just sent, in the same transaction.

use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{Client, Error, Row};

use super::value::base;
use tidewire_store::error::StoreError;

/// The first number of types that are not the database's own.
const FIRST_OWN_TYPE: u32 = 16384;

/// By which our savepoint is known. What the database says against a value must not undo what the user did.
const SAVEPOINT: &str = "tidewire_values";

/// Whether a type's values are written by the database.
pub(super) fn is_written(kind: &Type) -> bool {
    let kind = base(kind);
    match kind.kind() {
        Kind::Array(element) => is_written(element),
        Kind::Composite(fields) => fields.iter().any(|field| is_written(field.type_())),
        Kind::Enum(_) => false,
        _ => *kind == Type::JSON || kind.oid() >= FIRST_OWN_TYPE,
    }
}

/// The texts of a column's values as JSON, aligned with them; none if the database cannot write them.
pub(super) async fn written(
    client: &Client,
    kind: &Type,
    texts: &[Option<String>],
) -> Result<Option<Vec<Option<String>>>, StoreError> {
    let failed = super::broken("write values as JSON");
    let (schema, name) = (quoted(kind.schema()), quoted(kind.name()));
    let sql = format!(
        "SELECT tidewire.image_with_json(pg_catalog.to_json(given::{schema}.{name})::pg_catalog.text)::pg_catalog.text
         FROM pg_catalog.unnest($1::pg_catalog.text[]) WITH ORDINALITY AS asked (given, place) ORDER BY place"
    );
    client.batch_execute(&format!("SAVEPOINT {SAVEPOINT}")).await.map_err(&failed)?;
    let answered = match client.query(&sql, &[&texts]).await {
        Ok(rows) => rows.iter().map(|row: &Row| row.try_get(0)).collect::<Result<Vec<_>, Error>>(),
        Err(error) => Err(error),
    };
    match answered {
        Ok(written) => {
            client.batch_execute(&format!("RELEASE {SAVEPOINT}")).await.map_err(failed)?;
            Ok(Some(written))
        }
        Err(error) => match failed(error) {
            // What the database says may have a value in it, so that it is not logged.
            StoreError::Broken { .. } => {
                tracing::debug!(kind = kind.name(), "a column is answered as its text");
                let back = format!("ROLLBACK TO {SAVEPOINT}; RELEASE {SAVEPOINT}");
                client.batch_execute(&back).await.map_err(failed)?;
                Ok(None)
            }
            error => Err(error),
        },
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_database_writes_otherwise_is_asked_for() {
        let own = |kind| Type::new("own".to_owned(), FIRST_OWN_TYPE, kind, "public".to_owned());
        for (kind, asked) in [
            (Type::JSON, true),
            (Type::JSON_ARRAY, true),
            (Type::JSONB, false),
            (Type::INT8, false),
            (Type::TEXT_ARRAY, false),
            (own(Kind::Simple), true),
            (own(Kind::Enum(vec!["a".to_owned()])), false),
            (own(Kind::Domain(Type::JSON)), true),
            (own(Kind::Domain(Type::TEXT)), false),
        ] {
            assert_eq!(is_written(&kind), asked, "{kind:?}");
        }
    }
}
