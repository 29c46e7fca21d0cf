//! Arrays of PostgreSQL that are written out, `'{1,2}'`, and claims that are lists: what `= ANY` and `<> ALL` look
//! through. Both are `IN` and `NOT IN` of their elements.

use sqlparser::ast::{ArrayElemTypeDef, CastKind, DataType, Expr, Value as Sql};

use super::Binder;
use super::operand::{Literal, Operand, Side};
use crate::caller::{self, Element};
use crate::condition::Condition;
use crate::refusal::Refusal;
use crate::table::Dialect;

/// Types of elements whose equality is that of the column they are compared with.
pub(crate) const ARRAY_ELEMENTS: [&str; 8] =
    ["bigint", "int", "int4", "int8", "integer", "text", "uuid", "varchar"];

impl<'a> Binder<'a> {
    /// `left = ANY (array)`, or `left <> ALL (array)`.
    pub(super) fn any(
        &mut self,
        left: &Expr,
        array: &Expr,
        negated: bool,
    ) -> Result<Condition, Refusal> {
        let side = self.operand(left)?;
        let position = self.source.position_of(array);
        let literals = self.array(array)?.ok_or_else(|| {
            let hint =
                "give it a claim, auth.claim('rooms'), or an array that is written out, '{1,2}'";
            self.unsupported(array, "this array").hint(match self.table.dialect {
                Dialect::Postgres => hint,
                Dialect::Sqlite => {
                    "give it a claim, auth.claim('rooms'), or list the values: IN (1, 2)"
                }
            })
        })?;
        let member =
            |literal| Side { operand: Operand::Literal(literal), collation: None, position };
        let members = literals.into_iter().map(|literal| (array, member(literal))).collect();
        self.among(&side, members, negated)
    }

    /// What an array holds, if that is known here.
    fn array(&self, array: &Expr) -> Result<Option<Vec<Literal>>, Refusal> {
        Ok(match array {
            Expr::Nested(inner) => self.array(inner)?,
            Expr::Function(function) => match self.claim_name(function) {
                Some(name) => {
                    let elements = caller::elements(self.caller.claim(name), self.table.dialect);
                    Some(elements.map_or_else(|| vec![Literal::Null], literals))
                }
                None => None,
            },
            _ if self.table.dialect == Dialect::Sqlite => None,
            Expr::Value(value) => match &value.value {
                Sql::SingleQuotedString(text) => written_out(text),
                Sql::Null => Some(vec![Literal::Null]),
                _ => None,
            },
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, ..
            } if is_plain(data_type) => self.cast_array(expr),
            _ => None,
        })
    }

    /// What an array holds that was cast to one: of a claim, only a list is one.
    fn cast_array(&self, cast: &Expr) -> Option<Vec<Literal>> {
        match cast {
            Expr::Nested(inner) => self.cast_array(inner),
            Expr::Value(value) => match &value.value {
                Sql::SingleQuotedString(text) => written_out(text),
                Sql::Null => Some(vec![Literal::Null]),
                _ => None,
            },
            Expr::Function(function) => match self.caller.claim(self.claim_name(function)?) {
                None | Some(serde_json::Value::Null) => Some(vec![Literal::Null]),
                Some(serde_json::Value::String(text)) => written_out(&text),
                list @ Some(serde_json::Value::Array(_)) => {
                    caller::elements(list, self.table.dialect).map(literals)
                }
                Some(_) => None,
            },
            _ => None,
        }
    }
}

/// The values of a claim.
pub(super) fn literals(elements: Vec<Element>) -> Vec<Literal> {
    let literal = |element| match element {
        Element::Null => Literal::Null,
        Element::Number(digits) => Literal::Number(digits),
        Element::Text(text) => Literal::Text(text),
    };
    elements.into_iter().map(literal).collect()
}

fn written_out(text: &str) -> Option<Vec<Literal>> {
    let literal = |element: Option<String>| element.map_or(Literal::Null, Literal::Text);
    Some(array_elements(text)?.into_iter().map(literal).collect())
}

/// Whether a type is an array of elements that are compared as the column is.
fn is_plain(data_type: &DataType) -> bool {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, None)) => {
            ARRAY_ELEMENTS.contains(&element.to_string().to_ascii_lowercase().as_str())
        }
        _ => false,
    }
}

/// The elements of an array as PostgreSQL writes it, if it is a plain one.
pub(crate) fn array_elements(array: &str) -> Option<Vec<Option<String>>> {
    let mut rest = array.strip_prefix('{')?.strip_suffix('}')?.chars().peekable();
    let mut elements = Vec::new();
    if rest.peek().is_none() {
        return Some(elements);
    }
    loop {
        if rest.next_if_eq(&'"').is_some() {
            let mut text = String::new();
            loop {
                match rest.next()? {
                    '"' => break,
                    '\\' => text.push(rest.next()?),
                    other => text.push(other),
                }
            }
            elements.push(Some(text));
        } else {
            let mut text = String::new();
            while let Some(letter) =
                rest.next_if(|it| it.is_ascii_alphanumeric() || "-+._".contains(*it))
            {
                text.push(letter);
            }
            if text.is_empty() {
                return None;
            }
            elements.push((!text.eq_ignore_ascii_case("null")).then_some(text));
        }
        match rest.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_arrays_are_read_and_others_are_left_to_the_database() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(array_elements("{}"), Some(vec![]));
        assert_eq!(
            array_elements(r#"{1,-2.5,"a \"b\", c",NULL,"null"}"#),
            Some(vec![some("1"), some("-2.5"), some("a \"b\", c"), None, some("null")])
        );
        for text in ["", "{1", "{1,}", "{ 1}", "{{1},{2}}", "[0:1]={1,2}", "{a b}", "{\"a\"b}"] {
            assert_eq!(array_elements(text), None, "{text}");
        }
    }
}
