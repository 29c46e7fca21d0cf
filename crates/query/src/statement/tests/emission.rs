//! What is emitted has the tokens that were checked, and nothing else.

use proptest::prelude::*;
use sqlparser::tokenizer::{Token, Whitespace};

use super::*;
use crate::statement::emit::{Edits, emit};
use crate::statement::tokens;

fn tokens_of(sql: &str, dialect: Dialect) -> Option<Vec<Token>> {
    let pieces = tokens::read(sql, &[], dialect).ok()?;
    Some(pieces.into_iter().map(|piece| piece.token).collect())
}

fn emitted(sql: &str, dialect: Dialect) -> Option<String> {
    let pieces = tokens::read(sql, &[], dialect).ok()?;
    if pieces.iter().any(|piece| piece.identity.is_some()) {
        return None;
    }
    Some(emit(&pieces, 0, pieces.len(), &Edits::default()).text)
}

/// Quotes of other kinds are emitted as double ones.
fn unquoted(tokens: Vec<Token>) -> Vec<Token> {
    let plain = |token| match token {
        Token::Word(mut word) => {
            word.quote_style = word.quote_style.map(|_| '"');
            Token::Word(word)
        }
        other => other,
    };
    tokens.into_iter().map(plain).collect()
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z_][a-zA-Z0-9_$]{0,5}",
        "\"([a-zA-Z ';]|\"\"){1,5}\"",
        "'([a-zA-Z\\\\\"; -]|''){0,6}'",
        "[0-9]{1,4}(\\.[0-9]{1,3})?",
        prop::sample::select(vec![
            " ", "\n", "--x\n", "/* y */", "/*", "(", ")", ",", ".", "=", "<>", "!=", "<", "<=",
            ">", ">=", "+", "-", "*", "/", "%", "||", "::", "->", "->>", "#>", "@>", "<@", "&&",
            "~", "~*", "!~", "?", "|", "&", "<<", ">>", "[", "]", ":", ";", "E'a'", "$1", "''",
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn emitted_text_has_the_same_tokens_and_is_emitted_as_it_is(
        pieces in prop::collection::vec(piece(), 0..14),
        spaced in any::<bool>(),
    ) {
        let sql = pieces.join(if spaced { " " } else { "" });
        for dialect in [Dialect::Postgres, Dialect::Sqlite] {
            let Some(text) = emitted(&sql, dialect) else { continue };
            prop_assert_eq!(
                tokens_of(&sql, dialect).map(unquoted),
                tokens_of(&text, dialect),
                "{} -> {}", sql, text
            );
            prop_assert_eq!(emitted(&text, dialect), Some(text));
        }
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,80}") {
        for dialect in [Dialect::Postgres, Dialect::Sqlite] {
            let _ = bind(&text, dialect);
            let _ = bind(&format!("SELECT {text} FROM orders"), dialect);
            let _ = bind(&format!("SELECT id FROM orders WHERE {text}"), dialect);
        }
    }
}

#[test]
fn a_parameter_cannot_become_anything_but_a_literal() {
    for text in ["' OR 1=1 --", "\\'; DROP TABLE orders; --", "E'x'", "$$", "''", "a\nb", "/*"] {
        let params = serde_json::to_string(&[text]).expect("it is JSON");
        let sql = "SELECT id FROM orders WHERE lower(status) = $1 AND id > 0";
        let query = bind_as(sql, &params, Dialect::Postgres, &|_| Access::default());
        let query = query.expect("it is taken");
        let tokens = tokens::tokenize(&query.rerun, Dialect::Postgres).expect("it has tokens");
        let strings: Vec<&Token> = tokens
            .iter()
            .map(|token| &token.token)
            .filter(|token| matches!(token, Token::SingleQuotedString(_)))
            .collect();
        assert_eq!(strings, [&Token::SingleQuotedString(text.to_owned())]);
        let comments = tokens.iter().filter(|token| {
            matches!(
                token.token,
                Token::Whitespace(
                    Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)
                )
            )
        });
        assert_eq!(comments.count(), 0);
    }
}

#[test]
fn what_the_database_complains_of_is_found_in_the_clients_text() {
    let sql = "SELECT id,\n  status + 1\nFROM orders WHERE lower(status) = 'ü' AND total / 0 > 1";
    let draft = Draft::parse(sql, &[], Dialect::Postgres).expect("it is read");
    with_binding(&draft, Dialect::Postgres, &narrow, |binding| {
        let query = draft.bind(binding).expect("it is taken");
        for (emitted, written) in
            [("status + 1", "status + 1"), ("/ 0", "/ 0"), ("(SELECT", "orders")]
        {
            let characters = |text: &str, part: &str| {
                text[..text.find(part).expect("it is there")].chars().count() + 1
            };
            let origin = draft.origin(binding, characters(&query.rerun, emitted));
            assert_eq!(origin, Some(characters(sql, written)), "{emitted}");
        }
    });
}
