//! Rows of results as texts: JSON objects in the order of the columns, values as they are written.

use serde_json::value::RawValue;

use crate::delta::RowText;
use crate::plan::Projected;
use crate::row::{Row, Unsure};

/// What a query tells of an image.
pub(super) fn of_image(
    columns: &[Box<str>],
    projection: &[Projected],
    row: &Row<'_>,
) -> Result<RowText, Unsure> {
    let mut text = String::with_capacity(32 * columns.len());
    for (name, projected) in columns.iter().zip(projection) {
        begin_member(&mut text, name);
        match projected {
            Projected::Literal(json) => text.push_str(json),
            Projected::Column(column) => match row.get(column) {
                Some(value) => text.push_str(value.get()),
                None => return Err(Unsure::Missing { column: column.to_string() }),
            },
        }
    }
    Ok(finish(text))
}

/// A row that was read; one with another number of values than there are columns is none.
pub(super) fn of_values(columns: &[Box<str>], values: &[Box<RawValue>]) -> Option<RowText> {
    if columns.len() != values.len() {
        return None;
    }
    let mut text = String::with_capacity(32 * columns.len());
    for (name, value) in columns.iter().zip(values) {
        begin_member(&mut text, name);
        text.push_str(value.get());
    }
    Some(finish(text))
}

/// A row whose values are these, as JSON: as many as there are columns.
pub(super) fn of_texts<'a>(columns: &[Box<str>], values: impl Iterator<Item = &'a str>) -> RowText {
    let mut text = String::with_capacity(32 * columns.len());
    for (name, value) in columns.iter().zip(values) {
        begin_member(&mut text, name);
        text.push_str(value);
    }
    finish(text)
}

fn begin_member(text: &mut String, name: &str) {
    text.push(if text.is_empty() { '{' } else { ',' });
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if name.bytes().all(plain) {
        text.push('"');
        text.push_str(name);
        text.push('"');
    } else {
        text.push_str(&serde_json::Value::from(name).to_string());
    }
    text.push(':');
}

fn finish(mut text: String) -> RowText {
    text.push_str(if text.is_empty() { "{}" } else { "}" });
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_and_the_row_that_was_read_have_one_text() {
        let columns = ["a\"b".into(), "n".into(), "one".into()];
        let projection = [
            Projected::Column("x".into()),
            Projected::Column("n".into()),
            Projected::Literal("1".into()),
        ];
        let row = Row::parse(br#"{"n": 1.50, "x": "y z", "w": 0}"#).expect("an object");
        let text = of_image(&columns, &projection, &row).expect("all is there");
        assert_eq!(&*text, r#"{"a\"b":"y z","n":1.50,"one":1}"#);
        let value = |json: &str| RawValue::from_string(json.to_owned()).expect("JSON");
        let values = [value("\"y z\""), value("1.50"), value("1")];
        assert_eq!(of_values(&columns, &values), Some(text));
        assert_eq!(of_values(&columns[..2], &values), None);
    }

    #[test]
    fn a_column_that_an_image_has_not_is_not_null() {
        let row = Row::parse(b"{}").expect("an object");
        let projection = [Projected::Column("x".into())];
        let missing = Unsure::Missing { column: "x".into() };
        assert_eq!(of_image(&["x".into()], &projection, &row), Err(missing));
    }
}
