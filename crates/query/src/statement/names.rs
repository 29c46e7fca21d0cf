//! A table's name that stands alone, outside of any statement: in a rule, a scope, a setting.

use sqlparser::tokenizer::{Token, Word};

use super::tokens::tokenize;
use crate::shape::TableName;
use crate::table::Dialect;

/// Bytes of a name on PostgreSQL, which takes the first of them for the whole.
const NAME_BYTES_MAX: usize = 63;

impl TableName {
    /// Reads a name as the database would in a statement: `orders`, `Sales.Orders`, `"Odd Name"`. None
    /// if it is no name there.
    pub fn read(text: &str, dialect: Dialect) -> Option<TableName> {
        let tokens = tokenize(text, dialect).ok()?;
        let tokens: Vec<Token> = tokens
            .into_iter()
            .map(|token| token.token)
            .filter(|token| !matches!(token, Token::Whitespace(_) | Token::EOF))
            .collect();
        let part = |token: &Token| match token {
            Token::Word(word) => Some(folded(word, dialect)).filter(|name| !name.is_empty()),
            _ => None,
        };
        match tokens.as_slice() {
            [name] => Some(TableName { schema: None, name: part(name)? }),
            [schema, Token::Period, name] => {
                Some(TableName { schema: Some(part(schema)?), name: part(name)? })
            }
            _ => None,
        }
    }
}

fn folded(word: &Word, dialect: Dialect) -> Box<str> {
    let name = match dialect {
        Dialect::Postgres if word.quote_style.is_some() => word.value.clone(),
        Dialect::Postgres | Dialect::Sqlite => word.value.to_ascii_lowercase(),
    };
    let mut end = name.len();
    if dialect == Dialect::Postgres && end > NAME_BYTES_MAX {
        end = NAME_BYTES_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
    }
    name[..end].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, dialect: Dialect) -> Option<String> {
        let TableName { schema, name } = TableName::read(text, dialect)?;
        Some(schema.map_or_else(|| format!("<{name}>"), |schema| format!("<{schema}><{name}>")))
    }

    #[test]
    fn names_are_folded_as_the_database_folds_them() {
        for (text, postgres, sqlite) in [
            ("orders", Some("<orders>"), Some("<orders>")),
            ("Orders", Some("<orders>"), Some("<orders>")),
            ("\"Orders\"", Some("<Orders>"), Some("<orders>")),
            ("public.Orders", Some("<public><orders>"), Some("<public><orders>")),
            (" MAIN . \"a\"\"b\" ", Some("<main><a\"b>"), Some("<main><a\"b>")),
            ("ÄRGER", Some("<Ärger>"), Some("<Ärger>")),
            ("select", Some("<select>"), Some("<select>")),
            ("\"a.b\"", Some("<a.b>"), Some("<a.b>")),
            ("a.b.c", None, None),
            ("two words", None, None),
            ("a.", None, None),
            ("", None, None),
            ("\"\"", None, None),
            ("\"open", None, None),
            ("orders; DROP TABLE orders", None, None),
        ] {
            assert_eq!(read(text, Dialect::Postgres).as_deref(), postgres, "{text} on PostgreSQL");
            assert_eq!(read(text, Dialect::Sqlite).as_deref(), sqlite, "{text} on SQLite");
        }
        let long = "é".repeat(40);
        let kept = TableName::read(&long, Dialect::Postgres).expect("a name").name;
        assert_eq!(*kept, "é".repeat(31), "what PostgreSQL takes of it");
        assert_eq!(*TableName::read(&long, Dialect::Sqlite).expect("a name").name, long);
    }
}
