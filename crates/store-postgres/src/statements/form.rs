//! Settings that decide how a session writes values, and the values whose form they decide.
//!
//! A session begins with the settings that the texts of values are read by here. Statements may set others, for
//! what they compute: what they answer is then written otherwise than in events, and cannot always be told
//! (`01.02.2024`), and the database writes a result under the settings that it computes it with. So a result that
//! has such values is refused, and every value that is answered has the one form.

use futures_util::{TryStreamExt as _, pin_mut};
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{Client, Error, SimpleQueryMessage, SimpleQueryStream};

use super::refused;
use super::value::base;
use super::written::is_written;
use tidewire_store::sql::SqlError;

/// The settings that are not what values are read by, as names and values.
const LOOK: &str = "
    SELECT s.name, pg_catalog.current_setting(s.name)
    FROM (VALUES ('DateStyle', '^iso($|,)'), ('TimeZone', '^(utc|gmt|etc/utc)$'),
        ('IntervalStyle', '^postgres$'), ('extra_float_digits', '^[123]$'), ('bytea_output', '^hex$'),
        ('client_encoding', '^utf-?8$')) AS s (name, usual)
    WHERE pg_catalog.current_setting(s.name) OPERATOR(pg_catalog.!~*) s.usual
";

/// What a setting has a say in.
fn concerns(setting: &str, kind: &Type) -> bool {
    let kind = base(kind);
    match kind.kind() {
        Kind::Array(of) | Kind::Range(of) | Kind::Multirange(of) => return concerns(setting, of),
        Kind::Composite(fields) => {
            return fields.iter().any(|field| concerns(setting, field.type_()));
        }
        Kind::Enum(_) => return setting == "client_encoding",
        _ => {}
    }
    // Of these it is not known what is in them.
    let is_open = matches!(*kind, Type::RECORD | Type::RECORD_ARRAY) || is_written(kind);
    is_open && *kind != Type::JSON
        || match setting {
            "DateStyle" => matches!(*kind, Type::DATE | Type::TIMESTAMP | Type::TIMESTAMPTZ),
            "TimeZone" => *kind == Type::TIMESTAMPTZ,
            "IntervalStyle" => *kind == Type::INTERVAL,
            "bytea_output" => *kind == Type::BYTEA,
            "extra_float_digits" => matches!(
                *kind,
                Type::FLOAT4
                    | Type::FLOAT8
                    | Type::POINT
                    | Type::LSEG
                    | Type::PATH
                    | Type::BOX
                    | Type::POLYGON
                    | Type::LINE
                    | Type::CIRCLE
            ),
            // Every text's.
            _ => true,
        }
}

/// What to do instead of leaving a setting as it is.
fn hint(setting: &str) -> &'static str {
    match setting {
        "TimeZone" => {
            "values are answered in UTC: write t AT TIME ZONE 'Europe/Berlin' or to_char(t, …) for what is shown, or \
             SET TimeZone = 'UTC' before the last statement"
        }
        "DateStyle" => {
            "SET DateStyle = 'ISO' before the last statement, or have that answer to_char(…)"
        }
        "IntervalStyle" => {
            "SET IntervalStyle = 'postgres' before the last statement, or have that answer to_char(…)"
        }
        "client_encoding" => "leave it as it is: what is sent and answered is UTF-8",
        _ => "leave it as it is, or have the statement answer a text of its own",
    }
}

/// The question that is on its way.
pub(super) struct FormQuery(SimpleQueryStream);

/// Asks for the settings as they are after the statement before. Nothing is waited for.
pub(super) async fn look(client: &Client) -> Result<FormQuery, Error> {
    client.simple_query_raw(LOOK).await.map(FormQuery)
}

impl FormQuery {
    /// Refuses a result whose values have another form than those of events.
    pub(super) async fn refuse_other_forms(
        self,
        kinds: impl Iterator<Item = &Type> + Clone,
    ) -> Result<Option<SqlError>, Error> {
        let FormQuery(messages) = self;
        pin_mut!(messages);
        let mut refusal = None;
        while let Some(message) = messages.try_next().await? {
            let SimpleQueryMessage::Row(row) = message else { continue };
            let (setting, value) = (row.try_get(0)?.unwrap_or_default(), row.try_get(1)?);
            if refusal.is_none() && kinds.clone().any(|kind| concerns(setting, kind)) {
                let value = value.unwrap_or_default();
                let message = format!(
                    "{setting} is {value:?} after the statement, so its values do not have the form that they have in events"
                );
                refusal = Some(refused("sql_refused", message, None, hint(setting)));
            }
        }
        Ok(refusal)
    }
}
