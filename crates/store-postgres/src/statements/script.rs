//! A text of SQL, taken apart into its statements.
//!
//! The statements of one request share a transaction, so where each ends has to be known: to refuse
//! those that would end the transaction, and to say in the whole text where an error is. The rules are
//! those of PostgreSQL's own `psql`: strings, quoted names, dollar quotes, nested comments, parentheses
//! and the bodies of functions written in `BEGIN ATOMIC … END` hide their semicolons.

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    /// Without the semicolon after it, and without what stands before its first word.
    pub(super) text: &'a str,
    /// Characters of the whole text before it.
    pub(super) offset: usize,
    /// Its words outside quotes and comments, in capitals; as many as are needed to know it.
    words: Vec<String>,
    /// Whether `STDIN` or `STDOUT` is among its words.
    by_wire: bool,
}

/// Words that are kept. `ROLLBACK TRANSACTION TO x` is told apart by its third.
const WORDS_KEPT: usize = 4;

impl Statement<'_> {
    /// Why it cannot be part of a request, and what to do instead.
    pub(super) fn refusal(&self) -> Option<(&'static str, &'static str)> {
        let word = |index: usize| self.words.get(index).map_or("", String::as_str);
        let to_savepoint = match word(1) {
            "WORK" | "TRANSACTION" => word(2) == "TO",
            second => second == "TO",
        };
        match (word(0), word(1)) {
            ("ROLLBACK", _) if to_savepoint => None,
            ("BEGIN" | "COMMIT" | "END" | "ABORT" | "ROLLBACK", _)
            | ("START" | "PREPARE", "TRANSACTION") => Some((
                "the statements of a request are one transaction, which they cannot begin or end",
                "leave it out: what succeeds is committed, and an error undoes all of it. SAVEPOINT \
                 and ROLLBACK TO work",
            )),
            ("COPY", _) if self.by_wire => Some((
                "COPY cannot read from or write to a request",
                "use INSERT with several rows, or SELECT",
            )),
            _ => None,
        }
    }

    /// Whether it is about a savepoint of this name.
    pub(super) fn is_about_savepoint(&self, name: &str) -> bool {
        let first = self.words.first().map_or("", String::as_str);
        matches!(first, "SAVEPOINT" | "RELEASE" | "ROLLBACK")
            && self.text.to_ascii_lowercase().contains(name)
    }

    /// Whether it may leave something in the session that cannot be cleared away.
    pub(super) fn stains(&self) -> bool {
        let first = self.words.first().map_or("", String::as_str);
        matches!(first, "PREPARE" | "DEALLOCATE" | "DISCARD" | "DO" | "CALL" | "LOAD" | "LISTEN")
    }
}

/// The statements of a text, in order. Empty ones are left out.
pub(super) fn statements(sql: &str) -> Vec<Statement<'_>> {
    let mut scanner = Scanner { sql, at: 0, chars: 0 };
    let mut found = Vec::new();
    while let Some(statement) = scanner.statement() {
        found.push(statement);
    }
    found
}

struct Scanner<'a> {
    sql: &'a str,
    /// In bytes.
    at: usize,
    /// The same in characters.
    chars: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.sql[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        self.chars += 1;
        Some(next)
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.bump();
        }
    }

    /// The next statement that has something in it.
    fn statement(&mut self) -> Option<Statement<'a>> {
        let mut begun: Option<(usize, usize)> = None;
        let mut end = self.at;
        let (mut words, mut by_wire) = (Vec::new(), false);
        let (mut parentheses, mut blocks) = (0usize, 0usize);
        while let Some(next) = self.peek() {
            if next.is_whitespace() {
                self.bump();
                continue;
            }
            if self.comment() {
                continue;
            }
            if next == ';' && parentheses == 0 && blocks == 0 {
                self.bump();
                if begun.is_some() {
                    break;
                }
                continue;
            }
            begun = begun.or(Some((self.at, self.chars)));
            match next {
                '\'' => self.quoted('\'', false),
                '"' => self.quoted('"', false),
                '$' => self.dollar(),
                '(' => {
                    self.bump();
                    parentheses += 1;
                }
                ')' => {
                    self.bump();
                    parentheses = parentheses.saturating_sub(1);
                }
                _ if starts_word(next) => {
                    let word = self.word();
                    by_wire |= matches!(word.as_str(), "STDIN" | "STDOUT");
                    if parentheses == 0 && makes_routine(&words) {
                        match word.as_str() {
                            "BEGIN" => blocks += 1,
                            "CASE" if blocks > 0 => blocks += 1,
                            "END" => blocks = blocks.saturating_sub(1),
                            _ => {}
                        }
                    }
                    if words.len() < WORDS_KEPT {
                        words.push(word);
                    }
                }
                _ => {
                    self.bump();
                }
            }
            end = self.at;
        }
        let (start, offset) = begun?;
        Some(Statement { text: &self.sql[start..end], offset, words, by_wire })
    }

    /// Passes a comment, if there is one here.
    fn comment(&mut self) -> bool {
        if self.rest().starts_with("--") {
            while self.peek().is_some_and(|c| c != '\n' && c != '\r') {
                self.bump();
            }
            return true;
        }
        if !self.rest().starts_with("/*") {
            return false;
        }
        let mut depth = 0usize;
        while self.peek().is_some() {
            if self.rest().starts_with("/*") {
                self.skip(2);
                depth += 1;
            } else if self.rest().starts_with("*/") {
                self.skip(2);
                depth -= 1;
                if depth == 0 {
                    break;
                }
            } else {
                self.bump();
            }
        }
        true
    }

    /// Passes a string or a quoted name. A doubled quote inside simply begins the next one.
    fn quoted(&mut self, quote: char, escapes: bool) {
        self.bump();
        while let Some(next) = self.bump() {
            if next == '\\' && escapes {
                self.bump();
            } else if next == quote {
                break;
            }
        }
    }

    /// Passes a dollar quote, a parameter, or a lone dollar.
    fn dollar(&mut self) {
        let rest = self.rest();
        let tag = rest[1..].find('$').map(|end| &rest[..end + 2]);
        let is_tag = |tag: &&str| {
            let name = &tag[1..tag.len() - 1];
            name.is_empty() || name.starts_with(starts_word) && name.chars().all(continues_word)
        };
        let Some(tag) = tag.filter(is_tag) else {
            self.bump();
            return;
        };
        let body = &rest[tag.len()..];
        let whole = match body.find(tag) {
            Some(end) => &rest[..tag.len() + end + tag.len()],
            None => rest,
        };
        self.skip(whole.chars().count());
    }

    /// Passes a word, and a string that it begins.
    fn word(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|c| continues_word(c) || c == '$') {
            self.bump();
        }
        let word = self.sql[start..self.at].to_ascii_uppercase();
        if word == "E" && self.peek() == Some('\'') {
            self.quoted('\'', true);
        }
        word
    }
}

fn starts_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn continues_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

/// Whether a statement of these first words may have a body of statements.
fn makes_routine(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(
        words[..],
        ["CREATE", "FUNCTION" | "PROCEDURE", ..]
            | ["CREATE", "OR", "REPLACE", "FUNCTION" | "PROCEDURE", ..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<&str> {
        statements(sql).iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn a_semicolon_ends_a_statement_unless_something_hides_it() {
        for (sql, expected) in [
            ("SELECT 1", vec!["SELECT 1"]),
            (" SELECT 1 ; ; SELECT 2;-- end;\n", vec!["SELECT 1", "SELECT 2"]),
            ("SELECT 'a;''b'; SELECT \"c;\"\"d\"", vec!["SELECT 'a;''b'", "SELECT \"c;\"\"d\""]),
            (
                "SELECT E'a\\';b'; SELECT 'c\\'; SELECT 2",
                vec!["SELECT E'a\\';b'", "SELECT 'c\\'", "SELECT 2"],
            ),
            ("/* a; /* b; */ c; */ SELECT /* ; */ 1;", vec!["SELECT /* ; */ 1"]),
            (
                "SELECT $$a;$b$;$$, $t$;$$;$t$; SELECT $1",
                vec!["SELECT $$a;$b$;$$, $t$;$$;$t$", "SELECT $1"],
            ),
            (
                "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3",
                vec!["CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", "SELECT 3"],
            ),
            (
                "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 \
              END; SELECT 2; END; SELECT 3",
                vec![
                    "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true \
                 THEN 1 END; SELECT 2; END",
                    "SELECT 3",
                ],
            ),
            ("SELECT 'open; ", vec!["SELECT 'open; "]),
            ("", vec![]),
            (" ;; /* nothing */ -- here", vec![]),
        ] {
            assert_eq!(texts(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_statement_knows_its_place_in_characters() {
        let found = statements("SELECT 'ä€';\n SELECT 2");
        assert_eq!(found.iter().map(|s| s.offset).collect::<Vec<_>>(), [0, 14]);
    }

    #[test]
    fn what_ends_the_transaction_is_refused() {
        let refused = |sql: &str| statements(sql)[0].refusal().is_some();
        for sql in [
            "BEGIN",
            "/* x */ commit",
            "END TRANSACTION",
            "ABORT",
            "rollback",
            "ROLLBACK WORK",
            "ROLLBACK AND CHAIN",
            "START TRANSACTION READ ONLY",
            "PREPARE TRANSACTION 'x'",
            "COPY t FROM STDIN",
            "COPY (SELECT 1) TO stdout",
        ] {
            assert!(refused(sql), "{sql}");
        }
        for sql in [
            "ROLLBACK TO s",
            "ROLLBACK TRANSACTION TO SAVEPOINT s",
            "SAVEPOINT s",
            "PREPARE p AS SELECT 1",
            "SELECT 'COMMIT'",
            "COPY t FROM '/file'",
        ] {
            assert!(!refused(sql), "{sql}");
        }
    }
}
